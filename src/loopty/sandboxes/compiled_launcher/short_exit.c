/* A short end for copies of a warm process: see `namespace_launcher/copy_end.py`. The C library marks every loaded
   library as ended and calls into each, which copies a page or two of every one. Most have nothing to do then but what
   the compiler puts into all of them; those that have are called here, each before those that it needs. */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined __GLIBC__ && (defined __x86_64__ || defined __aarch64__)
enum { MOST = 512, OF_ONE_THREAD = 3 };

typedef void (*function)(void);

struct library {
    const char *name, *texts;
    const ElfW(Dyn) *entries;
    function *destructors, last;
    size_t count;
    int is_visited;
};

static struct library libraries[MOST];
static size_t number_of_libraries;
/* Those that have something to do, each after those that it needs. */
static const struct library *ended[MOST];
static size_t number_ended;
static unsigned long long loaded, unloaded;
static int is_noted;

static int count_libraries(struct dl_phdr_info *info, size_t size, void *place) {
    unsigned long long *numbers = place;
    (void)size;
    numbers[0] = info->dlpi_adds;
    numbers[1] = info->dlpi_subs;
    return 1;
}

static void *address(const struct dl_phdr_info *info, ElfW(Addr) place) {
    /* The dynamic linker has made some of them addresses already. */
    return (void *)(place >= info->dlpi_addr ? place : info->dlpi_addr + place);
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int add_library(struct dl_phdr_info *info, size_t size, void *nothing) {
    (void)size, (void)nothing;
    if (number_of_libraries == MOST)
        return 1;
    struct library *library = &libraries[number_of_libraries];
    for (size_t part = 0; part < info->dlpi_phnum; part++)
        if (info->dlpi_phdr[part].p_type == PT_DYNAMIC)
            library->entries = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[part].p_vaddr);
    if (library->entries == NULL)
        return 0;
    library->name = base_name(info->dlpi_name);
    size_t name = 0;
    for (const ElfW(Dyn) *entry = library->entries; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            library->texts = address(info, entry->d_un.d_ptr);
        else if (entry->d_tag == DT_SONAME)
            name = entry->d_un.d_val;
        else if (entry->d_tag == DT_FINI_ARRAY)
            library->destructors = (function *)(info->dlpi_addr + entry->d_un.d_ptr);
        else if (entry->d_tag == DT_FINI_ARRAYSZ)
            library->count = entry->d_un.d_val / sizeof(function);
        else if (entry->d_tag == DT_FINI)
            library->last = (function)(info->dlpi_addr + entry->d_un.d_ptr);
    }
    if (library->texts && name)
        library->name = library->texts + name;
    number_of_libraries++;
    return 0;
}

/* Whether it is the function that the linker puts into every library: it makes a frame and gives it back. */
#if defined __x86_64__
static int is_empty(function last) {
    static const unsigned char mark[] = {0xf3, 0x0f, 0x1e, 0xfa};
    static const unsigned char frame[] = {0x48, 0x83, 0xec, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3};
    const unsigned char *code = (const unsigned char *)(uintptr_t)last;
    if (memcmp(code, mark, sizeof mark) == 0)
        code += sizeof mark;
    return memcmp(code, frame, sizeof frame) == 0;
}
#else
static int is_empty(function last) {
    enum { NOP = 0xd503201f, SIGN = 0xd503233f, TARGET = 0xd503245f, CHECK = 0xd50323bf, RETURN = 0xd65f03c0 };
    static const uint32_t frame[] = {0xa9bf7bfd, 0x910003fd, 0xa8c17bfd};
    const uint32_t *code = (const uint32_t *)(uintptr_t)last;
    while (*code == (uint32_t)NOP || *code == (uint32_t)SIGN || *code == (uint32_t)TARGET)
        code++;
    if (memcmp(code, frame, sizeof frame) != 0)
        return 0;
    code += 3;
    return code[*code == (uint32_t)CHECK] == (uint32_t)RETURN;
}
#endif

/* Whether it does something at its end besides what the compiler's start files do, of which each has one function. */
static int has_work(const struct library *library) {
    return library->count > (library->last != NULL) || (library->last && !is_empty(library->last));
}

/* Adds what a library needs, and then itself; returns 0 where something that it needs is not found. */
static int add_in_order(struct library *library) {
    if (library->is_visited)
        return 1;
    library->is_visited = 1;
    for (const ElfW(Dyn) *entry = library->entries; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag != DT_NEEDED)
            continue;
        const char *name = library->texts + entry->d_un.d_val;
        size_t other = 0;
        while (other < number_of_libraries && strcmp(libraries[other].name, name) != 0)
            other++;
        if (other == number_of_libraries || !add_in_order(&libraries[other]))
            return 0;
    }
    if (has_work(library))
        ended[number_ended++] = library;
    return 1;
}

/* Called when all functions of `atexit` were called that the imports and the command have registered. */
static void end_process(int code, void *nothing) {
    unsigned long long now[2] = {0, 0};
    struct stat threads;
    (void)nothing;
    dl_iterate_phdr(count_libraries, now);
    /* Everything ends as always where the command has loaded a library of its own, or where a thread goes on, which
       may hold a file that would be waited for here. */
    if (!is_noted || now[0] != loaded || now[1] != unloaded || stat("/proc/self/task", &threads) != 0 ||
        threads.st_nlink != OF_ONE_THREAD)
        return;
    for (size_t left = number_ended; left > 0; left--) {
        const struct library *library = ended[left - 1];
        for (size_t position = library->count; position > 0; position--)
            library->destructors[position - 1]();
        if (library->last)
            library->last();
    }
    fflush(NULL);
    _exit(code);
}

/* Whether a library may have registered a function of `atexit` already, which would not be called. */
static int find_early(struct dl_phdr_info *info, size_t size, void *nothing) {
    (void)size, (void)nothing;
    return strstr(info->dlpi_name, "-packages/") || strstr(info->dlpi_name, "libstdc++") ||
           strstr(info->dlpi_name, "libc++");
}

/* Before the imports. */
__attribute__((visibility("default"))) void prepare_short_exit(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    if ((preloaded == NULL || *preloaded == 0) && !dl_iterate_phdr(find_early, NULL))
        on_exit(end_process, NULL);
}

/* After the imports. */
__attribute__((visibility("default"))) void note_libraries(void) {
    unsigned long long now[2] = {0, 0};
    is_noted = dl_iterate_phdr(add_library, NULL) == 0;
    for (size_t library = 0; library < number_of_libraries; library++)
        is_noted = is_noted && libraries[library].texts && add_in_order(&libraries[library]);
    dl_iterate_phdr(count_libraries, now);
    loaded = now[0];
    unloaded = now[1];
}
#else
/* Elsewhere an exit function is not told the exit code, or the code of libraries is not known: all ends as always. */
__attribute__((visibility("default"))) void prepare_short_exit(void) {}
__attribute__((visibility("default"))) void note_libraries(void) {}
#endif
