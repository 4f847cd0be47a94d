/* Memory of a warm process in large pages: see `namespace_launcher/large_pages.py`. The kernel makes a copy of a process
   page by page, and takes it apart in the same way; a large page is one step until the copy writes to it. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#define LARGE_PAGE ((size_t)1 << 21)
#define ARENAS_BYTES ((size_t)1 << 28)

/* As in Python's header. */
struct arena_allocator {
    void *context;
    void *(*take)(void *context, size_t size);
    void (*give_back)(void *context, void *arena, size_t size);
};
extern void PyObject_GetArenaAllocator(struct arena_allocator *allocator) __attribute__((weak));
extern void PyObject_SetArenaAllocator(struct arena_allocator *allocator) __attribute__((weak));

static struct arena_allocator former;
static char *first, *next, *end;

static char *rounded_up(char *place) {
    return (char *)(((uintptr_t)place + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1));
}

static void *take_arena(void *context, size_t size) {
    (void)context;
    if (size > (size_t)(end - next))
        return former.take(former.context, size);
    next += size;
    return next - size;
}

static void give_arena_back(void *context, void *arena, size_t size) {
    (void)context;
    if ((char *)arena >= first && (char *)arena < end)
        munmap(arena, size);
    else
        former.give_back(former.context, arena, size);
}

/* Lets Python take the memory of its objects from one place from here on, where large pages can lie. */
__attribute__((visibility("default"))) void gather_arenas(void) {
    if (!PyObject_GetArenaAllocator || !PyObject_SetArenaAllocator)
        return;
    char *memory = mmap(
        NULL, ARENAS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return;
    first = next = rounded_up(memory);
    end = memory + ARENAS_BYTES;
    PyObject_GetArenaAllocator(&former);
    PyObject_SetArenaAllocator(&(struct arena_allocator){NULL, take_arena, give_arena_back});
}

/* Gives back the rest of that place, so that a copy takes more memory as any other process does. */
__attribute__((visibility("default"))) void end_arenas(void) {
    char *last = rounded_up(next);
    if (last < end && munmap(last, (size_t)(end - last)) == 0)
        end = last;
}

/* Makes large pages of what lies between two places. */
__attribute__((visibility("default"))) void collapse(char *from, const char *until) {
    for (char *page = rounded_up(from); page + LARGE_PAGE <= until; page += LARGE_PAGE)
        madvise(page, LARGE_PAGE, MADV_COLLAPSE);
}
