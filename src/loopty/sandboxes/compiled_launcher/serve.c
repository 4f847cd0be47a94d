/* Start a process for each connection that loopty sends, and reap those that have ended. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int watch_deaths(void) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

int pid_in_proc(void) {
    char text[16] = "";
    if (readlink("/proc/self", text, sizeof text - 1) < 0)
        fail("/proc/self", "");
    return atoi(text);
}

void report_start(int trial, long pid, long number, int pidfd) {
    char words[128];
    if (pid < 0) {
        int size = snprintf(words, sizeof words, "failed cannot make namespaces: %s", strerror(errno));
        send(trial, words, (size_t)size, MSG_NOSIGNAL);
        return;
    }
    if (number >= 0) {
        /* Nobody listens any more when loopty has died. */
        int size = snprintf(words, sizeof words, "%ld", number);
        send_message(trial, words, (size_t)size, &pidfd, 1);
    }
    close(pidfd);
}

void serve(int connection, int deaths, void (*start)(char message, int trial)) {
    struct pollfd watch[] = {{connection, POLLIN, 0}, {deaths, POLLIN, 0}};
    for (;;) {
        if (poll(watch, 2, -1) < 0 && errno != EINTR)
            _exit(1);
        if (watch[1].revents) {
            struct signalfd_siginfo death;
            while (read(deaths, &death, sizeof death) > 0)
                ;
            while (waitpid(-1, NULL, WNOHANG) > 0)
                ;
        }
        if (!watch[0].revents)
            continue;
        char message;
        int numbers[256];
        size_t count;
        if (receive_message(connection, &message, 1, numbers, &count) != 1)
            _exit(0);
        for (size_t position = 1; position < count; position++)
            close(numbers[position]);
        if (count) {
            start(message, numbers[0]);
            close(numbers[0]);
        }
    }
}
