/* A key-value bucket: put, get and watch, by several clients at once. */
#include "loadgen.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUCKET "BENCH"
#define STRIDE 7919 /* a prime: one get after the other is of another place */

typedef enum { PUT, GET } operation;

typedef struct {
    const options *o;
    operation what;
    conn c;
    char replies[48]; /* where its answers go, without the number at the end */
    long first, count;
    pthread_t thread;
} client;

static void create_bucket(conn *c, const options *o) {
    char body[512];
    event e;
    snprintf(body, sizeof body,
             "{\"name\":\"KV_" BUCKET "\",\"subjects\":[\"$KV." BUCKET ".>\"],\"storage\":\"%s\",\"max_msgs_per_subject\":1,"
             "\"discard\":\"new\",\"allow_rollup_hdrs\":true,\"deny_delete\":true,\"allow_direct\":true}",
             o->storage);
    api_request(c, &e, "STREAM.CREATE.KV_" BUCKET, body);
}

static void queue_one(client *k, long number, const char *payload) {
    const options *o = k->o;
    if (k->what == PUT) {
        conn_queuef(&k->c, "PUB $KV." BUCKET ".key.%ld %s.%ld %ld\r\n", number % o->subjects, k->replies, number, o->size);
        conn_queue(&k->c, payload, (size_t)o->size + 2);
    } else {
        conn_queuef(&k->c, "PUB $JS.API.DIRECT.GET.KV_" BUCKET ".$KV." BUCKET ".key.%ld %s.%ld 0\r\n\r\n",
                    number * STRIDE % o->subjects, k->replies, number);
    }
}

static long take_answers(client *k) {
    event e;
    long answers = 0;
    while (conn_next(&k->c, &e)) {
        if (e.kind != EVENT_MSG) continue;
        int good = k->what == PUT ? bytes_contain(e.payload, e.payload_len, "\"seq\"")
                                  : e.headers_len > 0 && (long)e.payload_len == k->o->size;
        if (!good) die("refused: %.*s%.*s", (int)e.headers_len, e.headers, (int)e.payload_len, e.payload);
        answers++;
    }
    return answers;
}

/* At most its share of o->inflight without an answer. */
static void *drive(void *argument) {
    client *k = argument;
    long window = k->o->inflight / k->o->conns > 0 ? k->o->inflight / k->o->conns : 1;
    char *payload = xmalloc((size_t)k->o->size + 2);
    memset(payload, 'x', (size_t)k->o->size);
    memcpy(payload + k->o->size, "\r\n", 2);
    for (long sent = 0, answered = 0; answered < k->count;) {
        for (; sent < k->count && sent - answered < window; sent++) queue_one(k, k->first + sent, payload);
        conn_flush(&k->c);
        conn_fill(&k->c, 1);
        answered += take_answers(k);
    }
    free(payload);
    return NULL;
}

static double rate_of(client *clients, const options *o, operation what, long total) {
    int64_t start = now_ns();
    for (long i = 0; i < o->conns; i++) {
        client *k = &clients[i];
        k->what = what;
        k->first = total * i / o->conns;
        k->count = total * (i + 1) / o->conns - k->first;
        if (pthread_create(&k->thread, NULL, drive, k) != 0) die("no thread");
    }
    for (long i = 0; i < o->conns; i++) pthread_join(clients[i].thread, NULL);
    return (double)total * 1e9 / (double)(now_ns() - start);
}

/* The last message of each key, as watchers begin with. */
static double watch_rate(conn *c, const options *o) {
    static const char body[] =
        "{\"stream_name\":\"KV_" BUCKET "\",\"config\":{\"name\":\"W\",\"ack_policy\":\"none\",\"deliver_policy\":"
        "\"last_per_subject\",\"filter_subject\":\"$KV." BUCKET ".>\",\"deliver_subject\":\"watched\"}}";
    event e;
    int64_t start = now_ns();
    conn_queuef(c, "SUB watched 2\r\nPUB $JS.API.CONSUMER.CREATE.KV_" BUCKET ".W nobody %zu\r\n%s\r\n", strlen(body), body);
    conn_flush(c);
    for (long seen = 0; seen < o->subjects;) {
        conn_wait(c, &e);
        seen += e.kind == EVENT_MSG && e.reply_len > 0;
    }
    return (double)o->subjects * 1e9 / (double)(now_ns() - start);
}

int run_kv(const options *o) {
    conn c;
    client *clients = xmalloc(sizeof *clients * (size_t)o->conns);
    open_with_inbox(&c, o, "watcher");
    create_bucket(&c, o);
    for (long i = 0; i < o->conns; i++) {
        client *k = &clients[i];
        k->o = o;
        snprintf(k->replies, sizeof k->replies, "_INBOX.client%ld", i);
        conn_open(&k->c, o, "client");
        conn_queuef(&k->c, "SUB %s.* 1\r\n", k->replies);
        conn_sync(&k->c);
    }
    double puts = rate_of(clients, o, PUT, o->subjects);
    double gets = rate_of(clients, o, GET, o->msgs);
    for (long i = 0; i < o->conns; i++) conn_close(&clients[i].c);
    double watched = watch_rate(&c, o);
    printf("{\"mode\":\"kv\",\"keys\":%ld,\"conns\":%ld,\"size\":%ld,\"puts\":%.0f,\"gets\":%.0f,\"watched\":%.0f}\n",
           o->subjects, o->conns, o->size, puts, gets, watched);
    conn_close(&c);
    free(clients);
    return 0;
}
