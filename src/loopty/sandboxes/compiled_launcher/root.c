/* The root of a trial, made from parts that all trials share: see `namespace_launcher/root_files.py`. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same on every machine; C libraries from before 2021 do not name all of them. */
#define OPEN_TREE 428
#define MOVE_MOUNT 429
#define MOUNT_SETATTR 442
#define CLONE_FLAGS (1 | O_CLOEXEC | 0x1000 | 0x8000)
#define EMPTY_RECURSIVE (0x1000 | 0x8000)
#define BOTH_DESCRIPTORS (0x4 | 0x40)
#define READ_ONLY 0x1
#define NO_SUID 0x2
#define SAFE (0x2 | 0x4)
#define FROZEN (MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV)
#define SYSTEM "/system"
#define NEW "/new"

static const unsigned long long no_token, *own_token = &no_token;
/* Where the host's files are, what all trials share, and where the root of one trial is made. */
static const char *host = HOST, *shared_parts = SYSTEM, *new_root = NEW;
/* Below which everything is mounted: what all trials share is made first, then the root of one trial. */
static const char *base = SYSTEM;

void use_token(const unsigned long long *token) { own_token = token; }

long guarded_call(long number, long a, long b, long c, long d, long e) {
    return syscall(number, a, b, c, d, e, *own_token);
}

void make_roots_of_copies(void) {
    host = shared_parts = "";
    base = new_root = "/tmp";
}

int open_host_processes(void) { return open(*host ? HOST "/proc" : "/proc", O_PATH | O_CLOEXEC); }

struct path {
    char text[PATH_MAX];
};

static struct path join(const char *above, const char *below) {
    struct path path;
    if ((size_t)snprintf(path.text, sizeof path.text, "%s%s", above, below) >= sizeof path.text) {
        errno = ENAMETOOLONG;
        fail(below, "");
    }
    return path;
}

static void mount_at(const char *source, const char *target, const char *kind, unsigned long flags, const char *options) {
    if (guarded_call(SYS_mount, (long)source, (long)target, (long)kind, (long)flags, (long)options) != 0)
        fail(target, "");
}

static void make_folder(const char *path) {
    if (mkdir(path, 0755) != 0)
        fail(path, "");
}

static void make_symlink(const char *leads_to, const char *path) {
    if (symlink(leads_to, path) != 0)
        fail(path, "");
}

static int clone_tree(int descriptor, const char *path) {
    int tree = (int)guarded_call(OPEN_TREE, descriptor, (long)"", CLONE_FLAGS, 0, 0);
    if (tree < 0)
        fail(path, "");
    close(descriptor);
    return tree;
}

int clone_source(const char *path) {
    struct path outside = join(HOST, path), link;
    char target[PATH_MAX];
    int descriptor = open(outside.text, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (descriptor < 0)
        fail(path, "");
    snprintf(link.text, sizeof link.text, HOST "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link.text, target, sizeof target - 1);
    if (size < 0)
        fail(path, "");
    target[size] = 0;
    if (strcmp(target, outside.text) != 0) {
        errno = ELOOP;
        fail(path, ": it is or crosses a symbolic link");
    }
    return clone_tree(descriptor, path);
}

static int open_step(int above, const char *name, int is_folder) {
    int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    int descriptor = openat(above, name, flags);
    if (descriptor < 0 && errno == ENOENT) {
        if (is_folder) {
            if (mkdirat(above, name, 0755) != 0)
                return -1;
        } else {
            int made = openat(above, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
            if (made < 0)
                return -1;
            close(made);
        }
        descriptor = openat(above, name, flags);
    }
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0)
        return -1;
    if (S_ISLNK(status.st_mode)) {
        close(descriptor);
        errno = ELOOP;
        return -1;
    }
    return descriptor;
}

/* Opens a mount point, which is made where it does not exist. Step by step: what was mounted before may contain
   links, and one of them would lead out of the root. */
static int open_target(const char *path, int is_folder) {
    struct path names = join(path, "");
    int descriptor = open(base, O_PATH | O_CLOEXEC);
    char *rest = names.text, *name;
    while (descriptor >= 0 && (name = strsep(&rest, "/"))) {
        if (!*name)
            continue;
        int above = descriptor, has_more = rest && rest[strspn(rest, "/")];
        descriptor = open_step(above, name, is_folder || has_more);
        int error = errno;
        close(above);
        errno = error;
    }
    if (descriptor < 0)
        fail(path, " (mount point)");
    return descriptor;
}

static void attach(int tree, const char *path, unsigned long long attributes) {
    struct stat status;
    if (fstat(tree, &status) != 0)
        fail(path, "");
    int target = open_target(path, S_ISDIR(status.st_mode));
    uint64_t words[4] = {attributes, 0, 0, 0};
    if (guarded_call(MOUNT_SETATTR, tree, (long)"", EMPTY_RECURSIVE, (long)words, sizeof words) != 0)
        fail(path, "");
    if (guarded_call(MOVE_MOUNT, tree, (long)"", target, (long)"", BOTH_DESCRIPTORS) != 0)
        fail(path, "");
    close(target);
    close(tree);
}

static void bind_host(const char *source, const char *path, unsigned long long attributes) {
    struct path outside = join(host, source);
    int descriptor = open(outside.text, O_PATH | O_CLOEXEC);
    if (descriptor < 0)
        fail(source, "");
    attach(clone_tree(descriptor, source), path, attributes);
}

static void show(const char *path) {
    struct path shared = join(shared_parts, path), target = join(new_root, path);
    make_folder(target.text);
    mount_at(shared.text, target.text, NULL, MS_BIND | MS_REC, NULL);
}

static void mount_in_memory(const char *path, const char *options) {
    struct path target = join(new_root, path);
    close(open_target(path, 1));
    mount_at("tmpfs", target.text, "tmpfs", MS_NOSUID | MS_NODEV, options);
}

static void make_link(const char *path, const char *leads_to) {
    struct path above = join(path, "");
    char *slash = strrchr(above.text, '/');
    *slash = 0;
    int folder = open_target(above.text, 1);
    if (symlinkat(leads_to, folder, slash + 1) != 0)
        fail(path, "");
    close(folder);
}

static int is_setting(const char *path) { return strncmp(path, "/etc/", 5) == 0; }

static void make_settings(const struct value *system) {
    struct path folder = join(base, "/etc");
    make_folder(folder.text);
    mount_at(folder.text, folder.text, NULL, MS_BIND, NULL);
    for (size_t position = 0; position < system->count; position++) {
        const struct value *entry = system->items[position].items;
        if (!is_setting(entry[0].text))
            continue;
        if (entry[2].kind == 'T')
            make_link(entry[0].text, entry[1].text);
        else
            bind_host(entry[1].text, entry[0].text, READ_ONLY | SAFE);
    }
}

static void make_devices(void) {
    static const char *const names[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {
        {"/dev/fd", "/proc/self/fd"}, {"/dev/stdin", "/proc/self/fd/0"}, {"/dev/stdout", "/proc/self/fd/1"},
        {"/dev/stderr", "/proc/self/fd/2"}, {"/dev/core", "/proc/kcore"}, {"/dev/ptmx", "pts/ptmx"}};
    struct path folder = join(base, "/dev"), terminals = join(base, "/dev/pts"), memory = join(base, "/dev/shm");
    make_folder(folder.text);
    mount_at("tmpfs", folder.text, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
    for (size_t position = 0; position < sizeof names / sizeof *names; position++) {
        struct path path = join("/dev/", names[position]);
        bind_host(path.text, path.text, NO_SUID);
    }
    for (size_t position = 0; position < sizeof links / sizeof *links; position++) {
        struct path path = join(base, links[position][0]);
        make_symlink(links[position][1], path.text);
    }
    make_folder(terminals.text);
    make_folder(memory.text);
}

void enter_shared_root(const struct value *system) {
    mount_at("none", "/", NULL, MS_REC | MS_SLAVE, NULL);
    mount_at("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
    make_folder("/tmp" HOST);
    make_folder("/tmp" SYSTEM);
    make_folder("/tmp" NEW);
    if (guarded_call(SYS_pivot_root, (long)"/tmp", (long)("/tmp" HOST), 0, 0, 0) != 0 || chdir("/") != 0)
        fail("/tmp", "");
    for (size_t position = 0; position < system->count; position++) {
        const struct value *entry = system->items[position].items;
        if (!is_setting(entry[0].text) && entry[2].kind != 'T')
            bind_host(entry[1].text, entry[0].text, READ_ONLY | SAFE);
    }
    make_settings(system);
    make_devices();
    mount_at("none", SYSTEM "/etc", NULL, FROZEN, NULL);
    mount_at("none", SYSTEM "/dev", NULL, FROZEN, NULL);
    base = NEW;
}

static void mount_proc(void) {
    /* Old parts of /proc by which root could harm the machine. An unprivileged user cannot write them anyway. */
    static const char *const covered[] = {"sys", "sysrq-trigger", "irq", "bus"};
    struct path folder = join(new_root, "/proc"), below = join(folder.text, "/");
    make_folder(folder.text);
    mount_at("proc", folder.text, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    for (size_t position = 0; position < sizeof covered / sizeof *covered; position++) {
        struct path path = join(below.text, covered[position]);
        if (access(path.text, W_OK) == 0) {
            mount_at(path.text, path.text, NULL, MS_BIND | MS_REC, NULL);
            mount_at("none", path.text, NULL, FROZEN | MS_NOEXEC, NULL);
        }
    }
}

static void add_system(const struct value *system, const struct value *order, int has_devices) {
    for (size_t position = 0; position < system->count; position++) {
        const struct value *entry = system->items[position].items;
        if (is_setting(entry[0].text))
            continue;
        if (entry[2].kind == 'T') {
            struct path path = join(new_root, entry[0].text);
            make_symlink(entry[1].text, path.text);
        } else
            show(entry[0].text);
    }
    if (is_true(order, "network")) {
        /* What the host says about name servers changes, and only trials with the network see it. */
        make_settings(system);
        if (*text_field(order, "resolver"))
            bind_host(text_field(order, "resolver"), "/etc/resolv.conf", READ_ONLY | SAFE);
    } else
        show("/etc");
    if (has_devices)
        make_devices();
    else
        show("/dev");
    struct path terminals = join(new_root, "/dev/pts");
    mount_at("devpts", terminals.text, "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620");
    mount_proc();
}

size_t enter_trial_root(const struct value *shared, const struct value *order, struct descriptors *trees, int **memory) {
    const struct value *temporary = field(order, "temporary"), *scratch = field(order, "scratch");
    const struct value *mounts = field(order, "mounts"), *links = field(order, "links");
    const struct value *devices = field(order, "devices"), *facts = field(order, "facts");
    char size[64];
    snprintf(size, sizeof size, "mode=0755,size=%lld", number_field(order, "disk_bytes"));
    mount_at("tmpfs", new_root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
    add_system(field(shared, "system"), order, devices->count > 0);
    for (size_t position = 0; position < temporary->count; position++)
        mount_in_memory(temporary->items[position].text, size);
    struct path home = join(new_root, text_field(order, "home"));
    make_folder(home.text);
    for (size_t position = 0; position < mounts->count; position++) {
        const struct value *mount = mounts->items[position].items;
        int tree = mount[1].kind == 'N' ? take_descriptor(trees) : clone_source(mount[1].text);
        attach(tree, mount[0].text, mount[2].kind == 'T' ? SAFE : READ_ONLY | SAFE);
    }
    for (size_t position = 0; position < scratch->count; position++)
        mount_in_memory(scratch->items[position].text, size);
    for (size_t position = 0; position < links->count; position++)
        make_link(links->items[position].items[0].text, links->items[position].items[1].text);
    for (size_t position = 0; position < devices->count; position++)
        bind_host(devices->items[position].text, devices->items[position].text, NO_SUID);
    for (size_t position = 0; position < facts->count; position++)
        bind_host(facts->items[position].text, facts->items[position].text, READ_ONLY | SAFE);
    if (devices->count) {
        struct path folder = join(new_root, "/dev");
        mount_at("none", folder.text, NULL, FROZEN, NULL);
    }
    mount_at("none", new_root, NULL, FROZEN, NULL);
    *memory = room((temporary->count + scratch->count) * sizeof(int));
    size_t count = 0;
    for (size_t position = 0; position < temporary->count; position++)
        (*memory)[count++] = open_target(temporary->items[position].text, 1);
    for (size_t position = 0; position < scratch->count; position++)
        (*memory)[count++] = open_target(scratch->items[position].text, 1);
    /* The former root is mounted over the new one, and goes. */
    if (chdir(new_root) != 0 || guarded_call(SYS_pivot_root, (long)".", (long)".", 0, 0, 0) != 0 ||
        guarded_call(SYS_umount2, (long)".", MNT_DETACH, 0, 0, 0) != 0 || chdir("/") != 0)
        fail("/", "");
    return count;
}
