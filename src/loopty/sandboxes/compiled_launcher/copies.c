/* Start trials as copies of this process, a warm interpreter, which is copied once for each: see
   `namespace_launcher/warm_program.py`. A library, because only this process can copy itself.

   The first process of a trial begins in the memory of the warm process, which waits meanwhile, as with vfork. It
   makes the sandbox, copies itself, and becomes another program, which watches the copy. */
#if defined __x86_64__ || defined __aarch64__
#define _GNU_SOURCE
#include "launcher.h"

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
#define EMPTY_PATH 0x1000
enum { STACK_BYTES = 1 << 20, ROOM_BYTES = 1 << 26, ORDER = 3, FIRST_OTHER };

/* What others see in /proc as the words and the name of a copy, and where the words are. */
struct line {
    char *place;
    const char *text;
    size_t size;
    const char *name;
};

static struct value shared;
static int own_pid, own_program, own_trial;
/* No copy has these pages: the token and the order of a trial are no other trial's. */
static const unsigned long long *token;
static char *trial_room;
static char *stack;
static size_t page_bytes;
static sigset_t former_mask;
static jmp_buf place;
static struct line line;

#if defined __x86_64__
#define RSEQ_SIGNATURE 0x53053053
#define CLEAR_TOKEN() __asm__ volatile("xor %%r9d, %%r9d" ::: "r9")

/* A new process in this memory that calls `run` on another stack; this one waits until it has become a program. */
static long start_in_this_memory(unsigned long flags, void (*run)(void), int *pidfd) {
    register long none __asm__("r10") = 0;
    register long no_storage __asm__("r8") = 0;
    register unsigned long long sixth __asm__("r9") = *token;
    long result;
    void **top = (void **)(stack + STACK_BYTES);
    *--top = (void *)run;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rax\n\t"
                     "call *%%rax\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result), "+r"(none), "+r"(no_storage), "+r"(sixth)
                     : "a"(SYS_clone), "D"(flags), "S"(top), "d"(pidfd)
                     : "rcx", "r11", "cc", "memory");
    return result;
}
#else
#define RSEQ_SIGNATURE 0xd428bc00
#define CLEAR_TOKEN() __asm__ volatile("mov x5, xzr" ::: "x5")

static long start_in_this_memory(unsigned long flags, void (*run)(void), int *pidfd) {
    void **top = (void **)(stack + STACK_BYTES) - 2;
    *top = (void *)run;
    register long result __asm__("x0") = (long)flags;
    register void *new_stack __asm__("x1") = top;
    register int *third __asm__("x2") = pidfd;
    register long no_storage __asm__("x3") = 0;
    register long none __asm__("x4") = 0;
    register unsigned long long sixth __asm__("x5") = *token;
    register long number __asm__("x8") = SYS_clone;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "ldr x9, [sp], #16\n\t"
                     "blr x9\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(result)
                     : "r"(new_stack), "r"(third), "r"(no_storage), "r"(none), "r"(sixth), "r"(number)
                     : "x9", "x30", "cc", "memory");
    return result;
}
#endif

static void *pages(size_t size, int advice) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || (advice && madvise(memory, size, advice) != 0))
        fail("memory", "");
    return memory;
}

/* More than a page below the frame of its caller, so that the pages of what it calls can go. */
static __attribute__((noinline)) void prepare_far_below(struct trial *trial) {
    volatile char *distance = alloca(2 * page_bytes);
    distance[0] = 0;
    /* A terminal needs a user 0. */
    write_identity(0, number_field(&shared, "uid"), 0, number_field(&shared, "gid"));
    *trial = prepare_trial(&shared, own_pid, own_trial);
}

/* What was on this stack would be the next trial's, too. */
static void wipe_below(const void *frame) {
    size_t used = (size_t)((const char *)frame - stack) - page_bytes;
    if (madvise(stack, used / page_bytes * page_bytes, MADV_DONTNEED) != 0)
        fail("memory", "");
}

/* The kernel forgets where the C library has told it to write the number of the current core. */
extern const unsigned int __rseq_size __attribute__((weak));
extern const ptrdiff_t __rseq_offset __attribute__((weak));

static void restore_core_number(void) {
    if (&__rseq_size && &__rseq_offset && __rseq_size)
        syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32, 0, RSEQ_SIGNATURE);
}

/* In the copy, which goes on where the warm process began to wait. */
static _Noreturn void become_command(int order_file, const int *outputs, const int *gate) {
    char released;
    close(gate[1]);
    if (read(gate[0], &released, 1) != 1)
        _exit(1);
    restore_core_number();
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(outputs[0], 1) < 0 || dup2(outputs[1], 2) < 0)
        _exit(1);
    if (order_file != ORDER && dup3(order_file, ORDER, O_CLOEXEC) < 0)
        _exit(1);
    syscall(SYS_close_range, FIRST_OTHER, ~0U, 0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    memcpy(line.place, line.text, line.size);
    prctl(PR_SET_NAME, line.name, 0, 0, 0);
    _longjmp(place, 1);
}

static _Noreturn void run_first_process(void) {
    static char watch[] = "watch", no_word[] = "-", title[] = "trial";
    int gate[2];
    use_room(trial_room, ROOM_BYTES);
    struct trial trial;
    prepare_far_below(&trial);
    int waits = is_true(&trial.order, "waits"), order_file = trial.order_file;
    int outputs[] = {trial.outputs[0], trial.outputs[1]};
    if (pipe2(gate, O_CLOEXEC) != 0)
        fail("pipe", "");
    wipe_below(__builtin_frame_address(0));
    CLEAR_TOKEN();
    /* Not a bare system call: the C library and packages put themselves in order after this one. */
    pid_t copy = fork();
    if (copy == 0)
        become_command(order_file, outputs, gate);
    if (copy < 0 || dup2(own_trial, 0) < 0 || dup2(gate[1], 1) < 0)
        fail("fork", "");
    char *words[] = {title, waits ? watch : no_word, NULL}, *none[] = {NULL};
    syscall(SYS_execveat, own_program, "", words, none, EMPTY_PATH);
    fail("execve", "");
}

static void start_trial(char message, int trial) {
    int pidfd = -1;
    (void)message;
    own_trial = trial;
    long pid = start_in_this_memory(
        NAMESPACES | CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, run_first_process, &pidfd);
    errno = pid < 0 ? (int)-pid : 0;
    /* What the trial's order said is gone. */
    madvise(trial_room, ROOM_BYTES, MADV_DONTNEED);
    /* Loopty asks the pidfd for the pid: this process knows another one, that of its own pid namespace. */
    report_start(trial, pid, 0, pidfd);
}

/* Returns in copies only, with the open order of the trial: the warm process ends with its channel. */
__attribute__((visibility("default"))) int serve_copies(
    int channel, int order, int token_file, int program, char *words, const char *text, size_t size, const char *name) {
    sigset_t all;
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    unsigned long long *secret = pages(page_bytes, MADV_DONTFORK);
    report_failures_to(channel);
    line = (struct line){words, text, size, name};
    own_program = program;
    if (pread(token_file, secret, sizeof *secret, 0) != sizeof *secret)
        fail("token", "");
    close(token_file);
    token = secret;
    use_token(token);
    shared = read_order(order);
    close(order);
    make_roots_of_copies();
    trial_room = pages(ROOM_BYTES, MADV_DONTFORK);
    stack = pages(STACK_BYTES, 0);
    own_pid = pid_in_proc();
    /* No handler may run in the memory of another process. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &former_mask);
    int deaths = watch_deaths();
    if (_setjmp(place) == 0) {
        if (send(channel, "ready ", 6, MSG_NOSIGNAL) != 6)
            _exit(1);
        serve(channel, deaths, start_trial);
    }
    sigprocmask(SIG_SETMASK, &former_mask, NULL);
    return ORDER;
}
#endif
