/* Many subjects: how fast they are subscribed to, what they weigh, and whether publishing gets slower with them. */
#include "loadgen.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_MESSAGES 10000
#define BLOCK_MESSAGES 262144 /* prepared; far more than any server's cache of subjects holds */

typedef struct {
    char *bytes;
    size_t *end; /* end[i]: bytes up to and including message i */
    long count;
} block;

static size_t print_subject(char *to, long i) { return (size_t)sprintf(to, "scale.%ld.%ld", i / 1000, i % 1000); }

/* Messages to `hot` of the subjects, evenly spread and in no order; 0: to any of them. */
static void make_messages(block *b, const options *o) {
    unsigned long long state = 88172645463325252ULL;
    long spread = o->hot ? o->subjects / o->hot : 1;
    long choices = o->hot ? o->hot : o->subjects;
    size_t at = 0;
    b->count = BLOCK_MESSAGES;
    b->bytes = xmalloc(((size_t)o->size + 64) * BLOCK_MESSAGES);
    b->end = xmalloc(sizeof *b->end * BLOCK_MESSAGES);
    for (long i = 0; i < b->count; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        memcpy(b->bytes + at, "PUB ", 4);
        at += 4;
        at += print_subject(b->bytes + at, (long)(state % (unsigned long long)choices) * spread);
        at += (size_t)sprintf(b->bytes + at, " %ld\r\n", o->size);
        memset(b->bytes + at, 'x', (size_t)o->size);
        at += (size_t)o->size;
        memcpy(b->bytes + at, "\r\n", 2);
        at += 2;
        b->end[i] = at;
    }
}

static double subscribe(conn *subscribers, const options *o) {
    char subject[64];
    int64_t start = now_ns();
    for (long i = 0; i < o->subjects; i++) {
        conn *c = &subscribers[i % o->conns];
        size_t n = print_subject(subject, i);
        conn_queuef(c, "SUB %.*s %ld\r\n", (int)n, subject, i);
        if (c->out_len > WRITE_BLOCK_BYTES) conn_flush(c);
    }
    for (long i = 0; i < o->conns; i++) conn_sync(&subscribers[i]);
    return (double)(now_ns() - start) / 1e9;
}

static long received(conn *c) {
    event e;
    long count = 0;
    if (conn_fill(c, 0) == 0) return 0;
    while (conn_next(c, &e)) count += e.kind == EVENT_MSG;
    return count;
}

static double publish(conn *publisher, conn *subscribers, const block *b, const options *o) {
    struct pollfd *ready = xmalloc(sizeof *ready * (size_t)o->conns);
    for (long i = 0; i < o->conns; i++) ready[i] = (struct pollfd){.fd = subscribers[i].fd, .events = POLLIN};
    int64_t start = now_ns();
    for (long done = 0, at = 0; done < o->msgs;) {
        long n = BATCH_MESSAGES, arrived = 0;
        if (n > o->msgs - done) n = o->msgs - done;
        if (n > b->count - at) n = b->count - at;
        size_t from = at ? b->end[at - 1] : 0;
        conn_write(publisher, b->bytes + from, b->end[at + n - 1] - from);
        while (arrived < n) {
            if (poll(ready, (nfds_t)o->conns, -1) < 0) die("poll");
            for (long i = 0; i < o->conns; i++)
                if (ready[i].revents) arrived += received(&subscribers[i]);
        }
        if (arrived > n) die("%ld messages, expected %ld", arrived, n);
        done += n;
        at = at + n == b->count ? 0 : at + n;
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    free(ready);
    return seconds;
}

int run_interest(const options *o) {
    conn publisher;
    block messages;
    conn *subscribers = xmalloc(sizeof *subscribers * (size_t)o->conns);
    long before = resident_bytes(o->pid);
    for (long i = 0; i < o->conns; i++) conn_open(&subscribers[i], o, "subscriber");
    conn_open(&publisher, o, "publisher");
    conn_sync(&publisher);
    double subscribing = subscribe(subscribers, o);
    usleep(500000); /* let garbage collectors settle */
    long after = resident_bytes(o->pid);
    make_messages(&messages, o);
    double seconds = publish(&publisher, subscribers, &messages, o);
    printf("{\"mode\":\"interest\",\"subjects\":%ld,\"subscribe_s\":%.6f,\"subscribe_rate\":%.0f,"
           "\"bytes_per_subscription\":%.0f,\"rate\":%.0f}\n",
           o->subjects, subscribing, (double)o->subjects / subscribing,
           (double)(after - before) / (double)o->subjects, (double)o->msgs / seconds);
    return 0;
}
