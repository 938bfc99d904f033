/* loadgen: a native NATS load generator, small enough that the server is what is measured.
 *
 * main.c       options and dispatch
 * net.c        one blocking connection: connect, buffered writes, parsing of what arrives
 * core.c       core publish/subscribe, request-reply, idle connections
 * scale.c      many subjects
 * jetstream.c  publish with acks, pull consumption
 * keyvalue.c   a bucket: put, get, watch
 * fastbatch.c  a fast batch
 *
 * Each mode prints one JSON object on stdout. Any error prints a line on stderr and exits with status 1. */
#ifndef LOADGEN_H
#define LOADGEN_H

#include <stddef.h>
#include <stdint.h>

#define READ_CHUNK_BYTES (256 * 1024)
#define WRITE_BLOCK_BYTES (128 * 1024)

typedef struct {
    const char *host;
    int port;
    int sub_port; /* where subscribers and responders connect, a server that is linked to the other; 0: the same */
    long pubs, subs, size, msgs, subjects, conns, pid, inflight, batch;
    long hot;        /* so many of the subjects are published to; 0: all */
    long window_mib; /* bytes a publisher may be ahead of the slowest subscriber */
    const char *storage, *ack, *stream;
    const char *priority; /* policy of the pull consumer's priority group: none, overflow, pinned_client */
    int keep; /* leave the stream in place */
} options;

typedef enum { EVENT_NONE, EVENT_MSG, EVENT_PING, EVENT_PONG, EVENT_INFO, EVENT_OK } event_kind;

typedef struct {
    event_kind kind;
    const char *subject, *sid, *reply, *headers, *payload; /* valid until the next conn_fill */
    size_t subject_len, sid_len, reply_len, headers_len, payload_len;
} event;

typedef struct {
    int fd;
    const char *name; /* for error messages */
    char *in;
    size_t in_pos, in_len, in_cap;
    char *out;
    size_t out_len, out_cap;
} conn;

/* net.c */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void *xmalloc(size_t n);
int64_t now_ns(void);
int64_t cpu_ns(long pid); /* processor time that a process has taken so far */
void conn_open(conn *c, const options *o, const char *name); /* conn_dial and conn_greet */
void conn_open_far(conn *c, const options *o, const char *name); /* the same at sub_port */
void conn_dial(conn *c, const options *o, const char *name);
void conn_greet(conn *c); /* wait for INFO, queue CONNECT */
void conn_close(conn *c);
void conn_write(conn *c, const char *p, size_t n); /* at once, all of it */
void conn_queue(conn *c, const char *p, size_t n); /* until conn_flush */
void conn_queuef(conn *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void conn_flush(conn *c);
size_t conn_fill(conn *c, int wait);     /* read once; 0: nothing there (only with wait = 0) */
int conn_next(conn *c, event *e);        /* next complete event in the buffer, 0: none; answers PING by itself */
void conn_wait(conn *c, event *e);       /* next event, reading as needed */
void conn_sync(conn *c);                 /* PING, then everything up to its PONG */
int bytes_contain(const char *p, size_t n, const char *needle);
int64_t json_number(const char *p, size_t n, const char *key); /* -1: not there */

/* statistics over nanosecond samples; sorts them */
double percentile_us(int64_t *samples, long n, double percent);

/* core.c */
int run_core(const options *o);
int run_reqrep(const options *o);
int run_idle(const options *o);
long resident_bytes(long pid); /* of a process; 0 when it is not known */

/* scale.c */
int run_interest(const options *o);

/* jetstream.c */
int run_jspub(const options *o);
int run_jspull(const options *o);
extern char inbox[32]; /* of the connection that open_with_inbox has opened last */
void open_with_inbox(conn *c, const options *o, const char *name); /* subscribed to <inbox>.* */
/* One API request; dies when the answer is an error. The answer stays in *e until the next read. */
void api_request(conn *c, event *e, const char *subject, const char *body);

/* keyvalue.c */
int run_kv(const options *o);

/* fastbatch.c */
int run_fastbatch(const options *o);

#endif
