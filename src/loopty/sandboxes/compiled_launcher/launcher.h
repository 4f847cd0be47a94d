/* What the parts of the compiled launcher share. The launcher does what `namespace_launcher` does in Python. */
#ifndef LOOPTY_LAUNCHER_H
#define LOOPTY_LAUNCHER_H

#include <stddef.h>

#define HOST "/host"

/* A value that loopty sent: N T F, i (number), u (text), ( (items), { (items: a name, its value, the next name). */
struct value {
    char kind;
    long long number;
    const char *text;
    size_t size, count;
    struct value *items;
};

struct value read_order(int descriptor);
const struct value *field(const struct value *order, const char *name);
const char *text_field(const struct value *order, const char *name);
long long number_field(const struct value *order, const char *name);
int is_true(const struct value *order, const char *name);

struct descriptors {
    int *numbers;
    size_t count, next;
};

/* Returns 0 when the other side has closed the connection. */
int receive_descriptors(int connection, struct descriptors *received);
int take_descriptor(struct descriptors *received);
int receive_message(int connection, void *message, size_t size, int *numbers, size_t *count);
int send_message(int connection, const void *message, size_t size, const int *numbers, size_t count);

/* Says on the trial's connection what failed and ends this process. */
_Noreturn void fail(const char *path, const char *remark);
void report_failures_to(int connection);
void *room(size_t size);
/* Takes the memory of the next values from here, whose bytes are zero. */
void use_room(void *memory, size_t size);

/* A system call that passes the launcher's own filter. */
long guarded_call(long number, long a, long b, long c, long d, long e);
void use_token(const unsigned long long *token);

/* Makes what all trials share, once; this process must have a mount namespace of its own. */
void enter_shared_root(const struct value *system);
int clone_source(const char *path);
/* The roots of trials are made from the root that this process has, and no shared one is made. */
void make_roots_of_copies(void);
/* The /proc in which the parent of a trial's first process can be seen. */
int open_host_processes(void);
/* Makes the root of a trial and enters it; returns the number of open file systems in memory, in `memory`. */
size_t enter_trial_root(const struct value *shared, const struct value *order, struct descriptors *trees, int **memory);

void write_file(const char *path, const char *content);
/* Gives this process, which is alone in a new user namespace, one user and one group there. */
void write_identity(long long uid, long long outer_uid, long long gid, long long outer_gid);
void leave_namespaces(unsigned long flags);

struct trial {
    struct value order;
    int order_file, outputs[2];
};

/* Makes the sandbox of a trial around this process, its first one, and says that it is ready. */
struct trial prepare_trial(const struct value *shared, int parent, int connection);
/* Releases the command, the only child, by one byte through `gate`, and waits for it. */
_Noreturn void watch_copy(int connection, int gate, int waits);
_Noreturn void run_trial(const struct value *shared, int parent, int connection, int deaths);

/* A descriptor that can be read when a child has died. */
int watch_deaths(void);
/* This process's number as the /proc shows it that it sees. */
int pid_in_proc(void);
/* Starts a process for each connection that loopty sends, until it closes its own. */
_Noreturn void serve(int connection, int deaths, void (*start)(char message, int trial));
/* Says why a process was not started, or that it was, with a number that loopty can use, unless that is -1. */
void report_start(int trial, long pid, long number, int pidfd);

#endif
