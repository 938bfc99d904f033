/* Core publish/subscribe, request-reply and idle connections. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- publish/subscribe -------------------------------------------------------------------------------------- */

/* A run of whole messages that publishers send again and again: few writes, nothing formatted meanwhile. */
typedef struct {
    char *bytes;
    size_t *end; /* end[i]: bytes up to and including message i */
    long count;
} block;

typedef struct {
    _Atomic long received;
    char pad[64 - sizeof(long)]; /* a cache line each, or the counters of two threads fight over one */
} progress;

typedef struct {
    const options *o;
    block block;
    progress *subscribers;
    _Atomic long published; /* handed to the kernel, all publishers */
    long window_msgs;
    _Atomic int waiting;
    pthread_mutex_t lock;
    pthread_cond_t moved;
    pthread_barrier_t start;
    _Atomic long warm; /* subscribers behind a link that have seen a message of the publisher */
} shared;

typedef struct {
    shared *shared;
    conn conn;
    long index, msgs;
    int64_t at_ns; /* publishers: first write; subscribers: last delivery */
} worker;

static void make_block(block *b, const options *o) {
    size_t each = (size_t)o->size + 64;
    long rounds = (long)(WRITE_BLOCK_BYTES / (each * (size_t)o->subjects)) + 1;
    b->count = rounds * o->subjects;
    b->bytes = xmalloc(each * (size_t)b->count);
    b->end = xmalloc(sizeof *b->end * (size_t)b->count);
    size_t at = 0;
    for (long i = 0; i < b->count; i++) {
        at += (size_t)sprintf(b->bytes + at, "PUB bench.%ld %ld\r\n", i % o->subjects, o->size);
        memset(b->bytes + at, 'x', (size_t)o->size);
        at += (size_t)o->size;
        memcpy(b->bytes + at, "\r\n", 2);
        at += 2;
        b->end[i] = at;
    }
}

static long slowest(const shared *s) {
    long least = atomic_load_explicit(&s->subscribers[0].received, memory_order_acquire);
    for (long i = 1; i < s->o->subs; i++) {
        long n = atomic_load_explicit(&s->subscribers[i].received, memory_order_acquire);
        if (n < least) least = n;
    }
    return least;
}

/* Stay at most a window ahead of the slowest subscriber: a server that would cut slow consumers loses nothing. */
static void wait_for_window(shared *s) {
    if (s->o->subs == 0 || atomic_load(&s->published) - slowest(s) < s->window_msgs) return;
    pthread_mutex_lock(&s->lock);
    atomic_fetch_add(&s->waiting, 1);
    while (atomic_load(&s->published) - slowest(s) >= s->window_msgs) pthread_cond_wait(&s->moved, &s->lock);
    atomic_fetch_sub(&s->waiting, 1);
    pthread_mutex_unlock(&s->lock);
}

#define WARM "PUB bench.warm 0\r\n\r\n"
#define GO "PUB bench.go 0\r\n\r\n"

/* Interest crosses a link in its own time: publish until every subscriber has seen something. */
static void warm_up(worker *w) {
    while (atomic_load(&w->shared->warm) < w->shared->o->subs) {
        conn_write(&w->conn, WARM, sizeof WARM - 1);
        usleep(1000);
    }
    conn_write(&w->conn, GO, sizeof GO - 1);
}

static void await_go(worker *w) {
    event e;
    int seen = 0;
    for (;;) {
        conn_wait(&w->conn, &e);
        if (e.kind != EVENT_MSG) continue;
        if (!seen++) atomic_fetch_add(&w->shared->warm, 1);
        if (e.subject_len == 8 && memcmp(e.subject, "bench.go", 8) == 0) return;
    }
}

static void *publisher(void *argument) {
    worker *w = argument;
    shared *s = w->shared;
    event e;
    conn_sync(&w->conn);
    if (s->o->sub_port) warm_up(w);
    pthread_barrier_wait(&s->start);
    w->at_ns = now_ns();
    for (long left = w->msgs; left > 0;) {
        long n = left < s->block.count ? left : s->block.count;
        wait_for_window(s);
        conn_write(&w->conn, s->block.bytes, s->block.end[n - 1]);
        atomic_fetch_add(&s->published, n);
        left -= n;
        if (conn_fill(&w->conn, 0) > 0)
            while (conn_next(&w->conn, &e)) continue;
    }
    conn_sync(&w->conn);
    return NULL;
}

/* Counts the complete messages in the buffer. Most have the same line as the one before: compare that first. */
static long count_messages(conn *c, char *line, size_t *line_len, size_t *total_len) {
    long count = 0;
    for (;;) {
        const char *p = c->in + c->in_pos;
        size_t left = c->in_len - c->in_pos;
        if (*line_len > 0 && left >= *total_len && memcmp(p, line, *line_len) == 0) {
            if (memcmp(p + *total_len - 2, "\r\n", 2) != 0) die("%s: a message without its end", c->name);
            c->in_pos += *total_len;
            count++;
            continue;
        }
        event e;
        if (!conn_next(c, &e)) return count;
        if (e.kind != EVENT_MSG) continue;
        count++;
        const char *lf = e.headers - 1;
        if ((size_t)(lf + 1 - p) <= 512) {
            *line_len = (size_t)(lf + 1 - p);
            *total_len = *line_len + e.headers_len + e.payload_len + 2;
            memcpy(line, p, *line_len);
        }
    }
}

static void *subscriber(void *argument) {
    worker *w = argument;
    shared *s = w->shared;
    progress *mine = &s->subscribers[w->index];
    char line[512];
    size_t line_len = 0, total_len = 0;
    long received = 0;
    conn_queuef(&w->conn, "SUB bench.* 1\r\n");
    conn_sync(&w->conn);
    if (s->o->sub_port) await_go(w);
    w->conn.in_cap = READ_CHUNK_BYTES;
    w->conn.in = realloc(w->conn.in, w->conn.in_cap);
    if (w->conn.in == NULL) die("out of memory");
    pthread_barrier_wait(&s->start);
    while (received < w->msgs) {
        conn_fill(&w->conn, 1);
        received += count_messages(&w->conn, line, &line_len, &total_len);
        atomic_store(&mine->received, received);
        if (atomic_load(&s->waiting)) {
            pthread_mutex_lock(&s->lock);
            pthread_cond_broadcast(&s->moved);
            pthread_mutex_unlock(&s->lock);
        }
    }
    w->at_ns = now_ns();
    if (received > w->msgs) die("%s: %ld messages, expected %ld", w->conn.name, received, w->msgs);
    return NULL;
}

static void spawn(pthread_t *thread, void *(*run)(void *), void *argument) {
    if (pthread_create(thread, NULL, run, argument) != 0) die("cannot start a thread");
}

int run_core(const options *o) {
    shared s = {.o = o, .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    long workers = o->pubs + o->subs;
    worker *w = calloc((size_t)workers, sizeof *w);
    pthread_t *threads = calloc((size_t)workers, sizeof *threads);
    s.subscribers = aligned_alloc(64, sizeof(progress) * (size_t)(o->subs + 1));
    if (w == NULL || threads == NULL || s.subscribers == NULL) die("out of memory");
    memset(s.subscribers, 0, sizeof(progress) * (size_t)(o->subs + 1));
    if (o->sub_port && o->pubs != 1) die("--sub-port: one publisher");
    make_block(&s.block, o);
    s.window_msgs = (o->window_mib << 20) / (o->size + 32);
    pthread_barrier_init(&s.start, NULL, (unsigned)workers);
    int64_t cpu = cpu_ns(o->pid);
    for (long i = 0; i < workers; i++) {
        int subscribes = i < o->subs;
        w[i].shared = &s;
        w[i].index = i;
        w[i].msgs = subscribes ? o->msgs : o->msgs / o->pubs + (i - o->subs < o->msgs % o->pubs);
        if (subscribes)
            conn_open_far(&w[i].conn, o, "subscriber");
        else
            conn_open(&w[i].conn, o, "publisher");
        spawn(&threads[i], subscribes ? subscriber : publisher, &w[i]);
    }
    int64_t first = INT64_MAX, last = 0;
    for (long i = 0; i < workers; i++) {
        pthread_join(threads[i], NULL);
        if (i >= o->subs && w[i].at_ns < first) first = w[i].at_ns;
        if (i < o->subs && w[i].at_ns > last) last = w[i].at_ns;
    }
    if (o->subs == 0) last = now_ns();
    cpu = cpu_ns(o->pid) - cpu;
    long delivered = o->msgs * (o->subs ? o->subs : 1);
    double seconds = (double)(last - first) / 1e9;
    printf("{\"mode\":\"core\",\"pubs\":%ld,\"subs\":%ld,\"size\":%ld,\"subjects\":%ld,\"delivered\":%ld,"
           "\"seconds\":%.6f,\"rate\":%.0f,\"cpu_ns\":%.1f}\n",
           o->pubs, o->subs, o->size, o->subjects, delivered, seconds, (double)delivered / seconds,
           (double)cpu / (double)o->msgs);
    return 0;
}

/* ---- request-reply ------------------------------------------------------------------------------------------ */

static _Atomic int responder_ready;

static void *responder(void *argument) {
    conn *c = argument;
    event e;
    conn_queuef(c, "SUB bench.service 1\r\n");
    conn_sync(c);
    atomic_store(&responder_ready, 1);
    for (;;) {
        conn_wait(c, &e);
        if (e.kind != EVENT_MSG) continue;
        if (e.payload_len == 4 && memcmp(e.payload, "stop", 4) == 0) return NULL;
        conn_queuef(c, "PUB %.*s %zu\r\n", (int)e.reply_len, e.reply, e.payload_len);
        conn_queue(c, e.payload, e.payload_len);
        conn_queue(c, "\r\n", 2);
        conn_flush(c);
    }
}

int run_reqrep(const options *o) {
    conn requests, responses;
    pthread_t thread;
    event e;
    int64_t *samples = xmalloc(sizeof *samples * (size_t)o->msgs);
    char *payload = xmalloc((size_t)o->size + 1);
    memset(payload, 'x', (size_t)o->size);
    conn_open_far(&responses, o, "responder");
    conn_open(&requests, o, "requester");
    spawn(&thread, responder, &responses);
    conn_queuef(&requests, "SUB _INBOX.bench.* 1\r\n");
    conn_sync(&requests);
    while (!atomic_load(&responder_ready)) usleep(1000);
    int64_t start = now_ns();
    for (long i = 0, answered = 0; i < o->msgs;) {
        int64_t sent = now_ns();
        conn_queuef(&requests, "PUB bench.service _INBOX.bench.%ld %ld\r\n", i, o->size);
        conn_queue(&requests, payload, (size_t)o->size);
        conn_queue(&requests, "\r\n", 2);
        conn_flush(&requests);
        do conn_wait(&requests, &e);
        while (e.kind != EVENT_MSG);
        if (e.headers_len > 0 && o->sub_port && !answered) {
            usleep(1000); /* interest crosses a link in its own time */
            start = now_ns();
            continue;
        }
        if (e.headers_len > 0) die("requester: no responders");
        answered = 1;
        samples[i++] = now_ns() - sent;
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    conn_queuef(&requests, "PUB bench.service 4\r\nstop\r\n");
    conn_flush(&requests);
    pthread_join(thread, NULL);
    double median = percentile_us(samples, o->msgs, 50), p99 = percentile_us(samples, o->msgs, 99);
    printf("{\"mode\":\"reqrep\",\"msgs\":%ld,\"size\":%ld,\"rate\":%.0f,\"median_us\":%.1f,\"p99_us\":%.1f}\n", o->msgs,
           o->size, (double)o->msgs / seconds, median, p99);
    return 0;
}

/* ---- idle connections --------------------------------------------------------------------------------------- */

long resident_bytes(long pid) {
    char path[64], line[256];
    long kib = 0;
    if (pid == 0) return 0;
    snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) die("cannot read %s", path);
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Rss: %ld kB", &kib) == 1) break;
    fclose(file);
    return kib * 1024;
}

#define IDLE_GROUP 50

int run_idle(const options *o) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
        if ((long)files.rlim_max < o->conns + 16) die("only %ld open files allowed", (long)files.rlim_max);
    }
    conn *conns = xmalloc(sizeof *conns * (size_t)o->conns);
    long before = resident_bytes(o->pid);
    int64_t start = now_ns();
    /* some at a time, as they come when clients reconnect: the server is measured, not the way to it and back */
    for (long from = 0, to; from < o->conns; from = to) {
        to = from + IDLE_GROUP < o->conns ? from + IDLE_GROUP : o->conns;
        for (long i = from; i < to; i++) conn_dial(&conns[i], o, "idle connection");
        for (long i = from; i < to; i++) {
            conn_greet(&conns[i]);
            conn_queuef(&conns[i], "SUB idle.%ld 1\r\nPING\r\n", i);
            conn_flush(&conns[i]);
        }
        for (long i = from; i < to; i++) {
            event e;
            do conn_wait(&conns[i], &e);
            while (e.kind != EVENT_PONG);
        }
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    usleep(1500000); /* let garbage collectors and lazily grown buffers settle */
    long after = resident_bytes(o->pid);
    for (long i = 0; i < o->conns; i += o->conns / 16 + 1) conn_sync(&conns[i]);
    printf("{\"mode\":\"idle\",\"conns\":%ld,\"rate\":%.0f,\"rss_before\":%ld,\"rss_after\":%ld,"
           "\"bytes_per_connection\":%.0f}\n",
           o->conns, (double)o->conns / seconds, before, after, (double)(after - before) / (double)o->conns);
    return 0;
}
