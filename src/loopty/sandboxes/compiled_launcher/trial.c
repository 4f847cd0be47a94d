/* The first process of a trial: see `namespace_launcher/trial_process.py`. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

void write_file(const char *path, const char *content) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, content, strlen(content)) < 0)
        fail(path, "");
    close(file);
}

void leave_namespaces(unsigned long flags) {
    if (guarded_call(SYS_unshare, (long)flags, 0, 0, 0, 0) != 0)
        fail("unshare", "");
}

void write_identity(long long uid, long long outer_uid, long long gid, long long outer_gid) {
    char text[64];
    /* The kernel lets only its own user write these, which a process that cannot be read does not count as. */
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    write_file("/proc/self/setgroups", "deny");
    snprintf(text, sizeof text, "%lld %lld 1", uid, outer_uid);
    write_file("/proc/self/uid_map", text);
    snprintf(text, sizeof text, "%lld %lld 1", gid, outer_gid);
    write_file("/proc/self/gid_map", text);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static void start_loopback(void) {
    int any_socket = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq interface = {.ifr_name = "lo"};
    if (any_socket < 0 || ioctl(any_socket, SIOCGIFFLAGS, &interface) != 0)
        fail("lo", "");
    interface.ifr_flags |= IFF_UP;
    if (ioctl(any_socket, SIOCSIFFLAGS, &interface) != 0)
        fail("lo", "");
    close(any_socket);
}

/* Gives up every capability, also for programs that are started later. */
static void drop_capabilities(void) {
    for (int capability = 0; capability < 64; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
            /* The kernel does not know this one, and none after it. */
            if (errno == EINVAL)
                break;
            fail("capabilities", "");
        }
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    if (syscall(SYS_capset, &header, none) != 0)
        fail("capabilities", "");
}

/* Enters a user namespace without any rights, in which no further one can be made. */
static void give_up_rights(const struct value *shared, int nests) {
    leave_namespaces(CLONE_NEWUSER);
    write_identity(number_field(shared, "uid"), 0, number_field(shared, "gid"), 0);
    if (!nests)
        write_file("/proc/sys/user/max_user_namespaces", "0");
    drop_capabilities();
}

/* The pid of this process's parent, as an open /proc shows it: getppid() says 0 for every process outside. */
static int parent_in(int processes) {
    char text[1024];
    int file = openat(processes, "self/stat", O_RDONLY | O_CLOEXEC), parent = -1;
    ssize_t size = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (size > 0) {
        text[size] = 0;
        /* The name in parentheses may contain anything; the state and the parent follow. */
        char *end = strrchr(text, ')');
        if (end)
            sscanf(end + 1, " %*c %d", &parent);
    }
    close(file);
    return parent;
}

/* Ends with the launcher, also when it has died by now. */
static void bind_life(int host_processes, int parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (parent_in(host_processes) != parent)
        _exit(1);
    close(host_processes);
}

static void set_limits(const struct value *limits) {
    for (size_t position = 0; position < limits->count; position++) {
        const struct value *limit = limits->items[position].items;
        struct rlimit both = {(rlim_t)limit[1].number, (rlim_t)limit[1].number};
        if (setrlimit((int)limit[0].number, &both) != 0)
            fail("setrlimit", "");
    }
}

static char **words_of(const struct value *list, const char *first) {
    char **words = room((list->count + 2) * sizeof *words);
    size_t count = 0;
    if (first)
        words[count++] = (char *)first;
    for (size_t position = 0; position < list->count; position++)
        words[count++] = (char *)list->items[position].text;
    return words;
}

static char **variables_of(const struct value *order) {
    const struct value *env = field(order, "env");
    char **variables = room((env->count / 2 + 2) * sizeof *variables);
    size_t count = 0;
    for (size_t position = 0; position + 1 < env->count; position += 2) {
        const struct value *name = &env->items[position], *value = name + 1;
        if (strcmp(name->text, "PWD") == 0)
            continue;
        variables[count] = room(name->size + value->size + 2);
        sprintf(variables[count++], "%s=%s", name->text, value->text);
    }
    const struct value *cwd = field(order, "cwd");
    variables[count] = room(cwd->size + 5);
    sprintf(variables[count], "PWD=%s", cwd->text);
    return variables;
}

/* The first executable file of this name on the search path, as execvp finds it. */
static const char *program_path(const char *name, const struct value *env) {
    if (strchr(name, '/'))
        return name;
    const char *search = "/bin:/usr/bin";
    for (size_t position = 0; position + 1 < env->count; position += 2)
        if (strcmp(env->items[position].text, "PATH") == 0)
            search = env->items[position + 1].text;
    for (;;) {
        size_t size = strcspn(search, ":");
        char *path = room(size + strlen(name) + 3);
        struct stat status;
        sprintf(path, "%.*s%s%s", (int)size, search, size ? (search[size - 1] == '/' ? "" : "/") : "./", name);
        if (access(path, X_OK) == 0 && stat(path, &status) == 0 && !S_ISDIR(status.st_mode))
            return path;
        if (!search[size])
            return NULL;
        search += size + 1;
    }
}

/* Starts the command without copying this process. Returns its pid, or -1 with the reason in errno. */
static pid_t spawn(const char *path, char **words, char **variables, const int *outputs, int has_channel) {
    static const int defaults[] = {SIGPIPE, SIGXFSZ, SIGTERM, SIGINT, SIGHUP};
    static const unsigned long ignored[4] = {(unsigned long)SIG_IGN, 0, 0, 0};
    volatile int problem = 0;
    pid_t pid = vfork();
    if (pid == 0) {
        int input = has_channel ? outputs[0] : open("/dev/null", O_RDONLY | O_CLOEXEC);
        sigset_t none;
        sigemptyset(&none);
        for (size_t position = 0; position < sizeof defaults / sizeof *defaults; position++)
            signal(defaults[position], SIG_DFL);
        /* As posix_spawn leaves the two signals that the C library keeps for itself, so that a command sees no
           difference. */
        for (int number = 32; number <= 33; number++)
            syscall(SYS_rt_sigaction, number, ignored, NULL, 8);
        if (input >= 0 && dup2(input, 0) >= 0 && dup2(outputs[0], 1) >= 0 && dup2(outputs[1], 2) >= 0 &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0)
            execve(path, words, variables);
        problem = errno;
        _exit(NOT_FOUND);
    }
    if (pid > 0 && problem) {
        waitpid(pid, NULL, 0);
        errno = problem;
        return -1;
    }
    return pid;
}

static pid_t start_command(const struct value *order, const int *outputs) {
    const struct value *words = field(order, "argv");
    const char *path = program_path(words->items[0].text, field(order, "env"));
    errno = ENOENT;
    if (!path)
        return -1;
    char **variables = variables_of(order);
    int has_channel = is_true(order, "channel");
    pid_t pid = spawn(path, words_of(words, NULL), variables, outputs, has_channel);
    if (pid < 0 && errno == ENOEXEC) {
        /* A script without a first line that names its interpreter is the shell's. */
        char **shell = words_of(words, "/bin/sh");
        shell[1] = (char *)path;
        pid = spawn("/bin/sh", shell, variables, outputs, has_channel);
    }
    return pid;
}

/* Reaps every dead child; the exit code of the command when it is among them, else -1. */
static int reap(pid_t command) {
    int status, code = -1;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == command)
            code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return code;
}

/* The exit code of the command, or -1 when loopty is gone. */
static int wait_for_command(pid_t command, int connection, int deaths) {
    struct pollfd watch[] = {{connection, POLLIN, 0}, {deaths, POLLIN, 0}};
    for (;;) {
        struct signalfd_siginfo death;
        if (poll(watch, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (watch[0].revents)
            return -1;
        if (watch[1].revents && read(deaths, &death, sizeof death) < 0 && errno != EAGAIN)
            return -1;
        int code = reap(command);
        if (code >= 0)
            return code;
    }
}

static int run_command(const struct value *order, const int *outputs, int connection, int deaths) {
    pid_t command = start_command(order, outputs);
    if (command < 0) {
        int code = errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
        const char *reason = code == NOT_FOUND ? "it is not found" : "it cannot be executed";
        dprintf(outputs[1], "cannot start %s: %s\n", field(order, "argv")->items[0].text, reason);
        return code;
    }
    close(outputs[0]);
    if (outputs[1] != outputs[0])
        close(outputs[1]);
    return wait_for_command(command, connection, deaths);
}

struct trial prepare_trial(const struct value *shared, int parent, int connection) {
    struct descriptors received;
    struct trial trial;
    char message[64];
    int *memory;
    report_failures_to(connection);
    if (!receive_descriptors(connection, &received))
        _exit(1);
    trial.order_file = take_descriptor(&received);
    trial.order = read_order(trial.order_file);
    const struct value *order = &trial.order;
    trial.outputs[0] = take_descriptor(&received);
    trial.outputs[1] = take_descriptor(&received);
    for (long long left = number_field(order, "groups"); left > 0; left--) {
        int group = take_descriptor(&received);
        if (write(group, "0", 1) != 1)
            fail("cgroup", "");
        close(group);
    }
    /* Now, so that the trial does not see the name of its group. */
    leave_namespaces(CLONE_NEWCGROUP);
    int host_processes = open_host_processes();
    size_t count = enter_trial_root(shared, order, &received, &memory);
    const char *name = text_field(shared, "host_name");
    if (sethostname(name, strlen(name)) != 0)
        fail("host name", "");
    if (!is_true(order, "network"))
        start_loopback();
    give_up_rights(shared, is_true(order, "nests"));
    bind_life(host_processes, parent);
    if (chdir(text_field(order, "cwd")) != 0)
        fail(text_field(order, "cwd"), "");
    set_limits(field(order, "limits"));
    setsid();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int size = snprintf(message, sizeof message, "ready %lld.%09ld", (long long)now.tv_sec, now.tv_nsec);
    if (send_message(connection, message, (size_t)size, memory, count) != 0)
        _exit(1);
    for (size_t position = 0; position < count; position++)
        close(memory[position]);
    return trial;
}

static void wait_until_released(int connection) {
    char go[2];
    if (recv(connection, go, sizeof go, 0) != 2 || memcmp(go, "go", 2) != 0)
        _exit(1);
}

static _Noreturn void report_end(int connection, int code) {
    char message[64];
    if (code >= 0) {
        int size = snprintf(message, sizeof message, "ended %d", code);
        send(connection, message, (size_t)size, MSG_NOSIGNAL);
    }
    _exit(1);
}

void run_trial(const struct value *shared, int parent, int connection, int deaths) {
    struct trial trial = prepare_trial(shared, parent, connection);
    close(trial.order_file);
    if (is_true(&trial.order, "waits"))
        wait_until_released(connection);
    report_end(connection, run_command(&trial.order, trial.outputs, connection, deaths));
}

void watch_copy(int connection, int gate, int waits) {
    int deaths = watch_deaths();
    if (waits)
        wait_until_released(connection);
    if (write(gate, "", 1) != 1)
        _exit(1);
    close(gate);
    report_end(connection, wait_for_command(2, connection, deaths));
}
