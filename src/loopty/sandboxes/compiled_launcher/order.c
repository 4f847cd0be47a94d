/* Read what loopty sent: orders as `marshal` writes them in version 2, and descriptors; and say what failed. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define BATCH 253
#define DEEPEST 16

struct reader {
    const unsigned char *next, *end;
};

static int failure_connection = -1;

void report_failures_to(int connection) { failure_connection = connection; }

void fail(const char *path, const char *remark) {
    char message[4096];
    const char *between = path[0] ? ": " : "";
    int size = snprintf(message, sizeof message, "failed %s%s%s%s", path, between, strerror(errno), remark);
    if (failure_connection >= 0 && size > 0)
        send(failure_connection, message, (size_t)size < sizeof message ? (size_t)size : sizeof message - 1, MSG_NOSIGNAL);
    _exit(1);
}

/* Where `room` takes memory from; the C library's otherwise. */
static char *next_room, *last_room;

void use_room(void *memory, size_t size) {
    next_room = memory;
    last_room = next_room + size;
}

void *room(size_t size) {
    void *memory = next_room;
    size = (size + 16) & ~(size_t)15;
    if (!next_room)
        memory = calloc(1, size);
    else if (size <= (size_t)(last_room - next_room))
        next_room += size;
    else
        memory = NULL;
    if (!memory) {
        errno = ENOMEM;
        fail("", "");
    }
    return memory;
}

/* Room for more, with what was there. */
static void *larger_room(const void *before, size_t size, size_t larger) {
    void *memory = room(larger);
    if (size)
        memcpy(memory, before, size);
    return memory;
}

static const unsigned char *take(struct reader *reader, size_t size) {
    const unsigned char *start = reader->next;
    if ((size_t)(reader->end - start) < size) {
        errno = EBADMSG;
        fail("order", "");
    }
    reader->next += size;
    return start;
}

static int32_t take_number(struct reader *reader) {
    const unsigned char *bytes = take(reader, 4);
    return (int32_t)(bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
}

static size_t take_size(struct reader *reader) {
    int32_t size = take_number(reader);
    if (size < 0 || size > reader->end - reader->next) {
        errno = EBADMSG;
        fail("order", "");
    }
    return (size_t)size;
}

/* Digits of 15 bits, the lowest first; the sign is that of their number. */
static long long take_long(struct reader *reader) {
    int32_t count = take_number(reader);
    int32_t digits = count < 0 ? -count : count;
    unsigned long long number = 0;
    for (int32_t position = 0; position < digits; position++) {
        const unsigned char *bytes = take(reader, 2);
        if (position < 5)
            number |= (unsigned long long)(bytes[0] | bytes[1] << 8) << 15 * position;
    }
    return count < 0 ? -(long long)number : (long long)number;
}

static struct value take_value(struct reader *reader, int depth);

/* `count` values, or as many as there are before the end of a dictionary. */
static void take_items(struct reader *reader, struct value *value, size_t count, int depth) {
    size_t capacity = count;
    value->items = room(capacity * sizeof *value->items);
    while (value->kind == '{' ? *take(reader, 1) != '0' : value->count < count) {
        if (value->kind == '{')
            reader->next--;
        if (value->count == capacity) {
            capacity = 2 * capacity + 8;
            value->items = larger_room(value->items, value->count * sizeof *value->items, capacity * sizeof *value->items);
        }
        value->items[value->count++] = take_value(reader, depth + 1);
    }
}

static struct value take_value(struct reader *reader, int depth) {
    struct value value = {.kind = (char)*take(reader, 1)};
    if (depth > DEEPEST)
        value.kind = '?';
    switch (value.kind) {
    case 'N': case 'T': case 'F':
        break;
    case 'i':
        value.number = take_number(reader);
        break;
    case 'l':
        value.kind = 'i';
        value.number = take_long(reader);
        break;
    case 's': case 'u': case 't': {
        value.kind = 'u';
        value.size = take_size(reader);
        char *copy = room(value.size);
        memcpy(copy, take(reader, value.size), value.size);
        value.text = copy;
        break;
    }
    case '(': case '[':
        value.kind = '(';
        take_items(reader, &value, take_size(reader), depth);
        break;
    case '{':
        take_items(reader, &value, 0, depth);
        break;
    default:
        errno = EBADMSG;
        fail("order", "");
    }
    return value;
}

struct value read_order(int descriptor) {
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        fail("order", "");
    size_t size = (size_t)status.st_size;
    unsigned char *bytes = room(size);
    if (pread(descriptor, bytes, size, 0) != (ssize_t)size)
        fail("order", "");
    struct reader reader = {bytes, bytes + size};
    return take_value(&reader, 0);
}

const struct value *field(const struct value *order, const char *name) {
    for (size_t position = 0; position + 1 < order->count; position += 2)
        if (order->items[position].kind == 'u' && strcmp(order->items[position].text, name) == 0)
            return &order->items[position + 1];
    errno = EBADMSG;
    fail(name, "");
}

const char *text_field(const struct value *order, const char *name) {
    const struct value *value = field(order, name);
    return value->kind == 'u' ? value->text : "";
}

long long number_field(const struct value *order, const char *name) { return field(order, name)->number; }

int is_true(const struct value *order, const char *name) { return field(order, name)->kind == 'T'; }

int receive_message(int connection, void *message, size_t size, int *numbers, size_t *count) {
    union {
        char bytes[CMSG_SPACE(BATCH * sizeof(int))];
        struct cmsghdr alignment;
    } control;
    struct iovec part = {message, size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received;
    do
        received = recvmsg(connection, &header, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    *count = 0;
    if (received <= 0)
        return 0;
    for (struct cmsghdr *each = CMSG_FIRSTHDR(&header); each; each = CMSG_NXTHDR(&header, each))
        if (each->cmsg_level == SOL_SOCKET && each->cmsg_type == SCM_RIGHTS) {
            size_t bytes = each->cmsg_len - CMSG_LEN(0);
            memcpy(numbers + *count, CMSG_DATA(each), bytes);
            *count += bytes / sizeof(int);
        }
    return (int)received;
}

int send_message(int connection, const void *message, size_t size, const int *numbers, size_t count) {
    union {
        char bytes[CMSG_SPACE(BATCH * sizeof(int))];
        struct cmsghdr alignment;
    } control = {0};
    struct iovec part = {(void *)message, size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), numbers, count * sizeof(int));
    }
    return sendmsg(connection, &header, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

int receive_descriptors(int connection, struct descriptors *received) {
    uint32_t total = 0;
    *received = (struct descriptors){0};
    do {
        int numbers[BATCH];
        size_t count;
        if (receive_message(connection, &total, sizeof total, numbers, &count) != sizeof total)
            return 0;
        size_t size = received->count * sizeof(int);
        received->numbers = larger_room(received->numbers, size, size + count * sizeof(int));
        memcpy(received->numbers + received->count, numbers, count * sizeof(int));
        received->count += count;
    } while (received->count < total);
    return 1;
}

int take_descriptor(struct descriptors *received) {
    if (received->next == received->count) {
        errno = EBADMSG;
        fail("descriptors", "");
    }
    return received->numbers[received->next++];
}
