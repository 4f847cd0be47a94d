/* A short end for copies of a warm process: see `namespace_launcher/copy_end.py`. The C library marks every loaded
   library as ended and calls into each, which copies a page of every one. Most have nothing to do then but what the
   compiler puts into all of them; those that have are called here. */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __GLIBC__
enum { MOST = 256, COMPILERS_OWN = 1 };

struct destructors {
    void (**functions)(void);
    size_t count;
};

static struct destructors found[MOST];
static size_t number_found;
static unsigned long long loaded, unloaded;
static int is_noted;

static int count_libraries(struct dl_phdr_info *library, size_t size, void *place) {
    unsigned long long *numbers = place;
    (void)size;
    numbers[0] = library->dlpi_adds;
    numbers[1] = library->dlpi_subs;
    return 1;
}

static int add_destructors(struct dl_phdr_info *library, size_t size, void *nothing) {
    struct destructors own = {NULL, 0};
    (void)size, (void)nothing;
    for (size_t part = 0; part < library->dlpi_phnum; part++) {
        if (library->dlpi_phdr[part].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(library->dlpi_addr + library->dlpi_phdr[part].p_vaddr);
        for (; entry->d_tag != DT_NULL; entry++) {
            if (entry->d_tag == DT_FINI_ARRAY)
                own.functions = (void (**)(void))(library->dlpi_addr + entry->d_un.d_ptr);
            else if (entry->d_tag == DT_FINI_ARRAYSZ)
                own.count = entry->d_un.d_val / sizeof *own.functions;
        }
    }
    if (own.functions == NULL || own.count <= COMPILERS_OWN)
        return 0;
    if (number_found == MOST)
        return 1;
    found[number_found++] = own;
    return 0;
}

/* Called when all functions of `atexit` were called that the imports and the command have registered. */
static void end_process(int code, void *nothing) {
    unsigned long long now[2] = {0, 0};
    (void)nothing;
    if (!is_noted)
        return;
    dl_iterate_phdr(count_libraries, now);
    if (now[0] != loaded || now[1] != unloaded)
        return; /* The command has loaded a library of its own: everything ends as always. */
    for (size_t library = 0; library < number_found; library++)
        for (size_t left = found[library].count; left > 0; left--)
            found[library].functions[left - 1]();
    fflush(NULL);
    _exit(code);
}

/* Before the imports. A library that was there before the interpreter has its exit functions called as always. */
__attribute__((visibility("default"))) void prepare_short_exit(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    if (preloaded == NULL || *preloaded == 0)
        on_exit(end_process, NULL);
}

/* After the imports. */
__attribute__((visibility("default"))) void note_libraries(void) {
    unsigned long long now[2] = {0, 0};
    is_noted = dl_iterate_phdr(add_destructors, NULL) == 0;
    dl_iterate_phdr(count_libraries, now);
    loaded = now[0];
    unloaded = now[1];
}
#else
/* Another C library cannot tell an exit function the exit code: everything ends as always. */
__attribute__((visibility("default"))) void prepare_short_exit(void) {}
__attribute__((visibility("default"))) void note_libraries(void) {}
#endif
