/* The launcher as a program that copies little: it starts the first process of each trial, and ends with loopty.

   Called with three descriptors: its order, the connection to loopty, and the file of this program. See
   `namespace_launcher/launcher_program.py`. The first process of a copy of a warm process (`copies.c`) becomes this
   program, too, with one word. */
#define _GNU_SOURCE
#include "launcher.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BATCH = 200 };
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID)

/* Sends copies of the trees at paths of the host, for a trial that this launcher does not start. */
static _Noreturn void copy_sources(int connection) {
    struct descriptors received;
    report_failures_to(connection);
    if (!receive_descriptors(connection, &received))
        _exit(0);
    int file = take_descriptor(&received);
    struct value order = read_order(file);
    close(file);
    const struct value *paths = field(&order, "paths");
    int *trees = room(paths->count * sizeof *trees);
    for (size_t position = 0; position < paths->count; position++)
        trees[position] = clone_source(paths->items[position].text);
    unsigned total = (unsigned)paths->count;
    for (size_t start = 0; start < total; start += BATCH) {
        size_t count = total - start < BATCH ? total - start : BATCH;
        send_message(connection, &total, sizeof total, trees + start, count);
    }
    _exit(0);
}

static struct value shared;
static int own_pid, connection, deaths;

static void start_process(char message, int trial) {
    unsigned long flags = message == '=' ? 0 : message == '+' ? NAMESPACES : NAMESPACES | CLONE_NEWNET;
    int pidfd = -1;
    /* Not clone3: the filter refuses it. */
    long pid = syscall(SYS_clone, flags | CLONE_PIDFD | SIGCHLD, NULL, &pidfd, NULL, NULL);
    if (pid == 0) {
        close(connection);
        if (message == '=')
            copy_sources(trial);
        run_trial(&shared, own_pid, trial, deaths);
    }
    report_start(trial, pid, message != '=' ? pid : -1, pidfd);
}

/* Becomes a user with rights only over namespaces of its own. */
static void enter_namespaces(void) {
    const struct value *owner = field(&shared, "owner");
    if (owner->kind == '(') {
        uid_t uid = (uid_t)owner->items[0].number;
        gid_t gid = (gid_t)owner->items[1].number;
        if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
            fail("the user of trials", "");
    }
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fail("", "");
    if (guarded_call(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS, 0, 0, 0, 0) != 0)
        fail("", "");
    /* A terminal needs a user 0. */
    write_identity(0, uid, 0, gid);
}

static unsigned long long token;

/* Sets the filter of all trials once, because the kernel takes milliseconds to translate one. */
static void filter_own_calls(void) {
    const struct value *filter = field(&shared, "call_filter");
    if (filter->kind != 'u')
        return;
    struct sock_fprog program = {(unsigned short)(filter->size / 8), (struct sock_filter *)filter->text};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        fail("seccomp", "");
    token = (unsigned long long)number_field(&shared, "token");
    use_token(&token);
}

/* The first process of a copy of a warm process: it was a part of that until now. */
static _Noreturn void become_watcher(char **words) {
    int waits = *words[1] == 'w';
    *words[1] = 0;
    watch_copy(0, 1, waits);
}

int main(int count, char **words) {
    static const int stops[] = {SIGTERM, SIGINT, SIGHUP, SIGPIPE};
    prctl(PR_SET_NAME, "trial", 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (count == 2)
        become_watcher(words);
    if (count != 4)
        return 2;
    int order = atoi(words[1]);
    connection = atoi(words[2]);
    close(atoi(words[3]));
    fcntl(connection, F_SETFD, FD_CLOEXEC);
    /* Every trial can read the command line of its first process. */
    for (int position = 1; position < count; position++)
        memset(words[position], 0, strlen(words[position]));
    /* A service manager that stops all processes of loopty stops loopty, too, and then the connection closes. */
    for (size_t position = 0; position < sizeof stops / sizeof *stops; position++)
        signal(stops[position], SIG_IGN);
    report_failures_to(connection);
    shared = read_order(order);
    close(order);
    own_pid = pid_in_proc();
    enter_namespaces();
    enter_shared_root(field(&shared, "system"));
    filter_own_calls();
    deaths = watch_deaths();
    serve(connection, deaths, start_process);
}
