/* JetStream: publish with acks, pull consumption. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUBJECT "bench.js"
#define CONSUMER "puller"
#define NUMBER_DIGITS 10 /* width of the message number in reply subjects: the templates are patched in place */

char inbox[32];
static char pin[64]; /* what messages for a pinned client say */

void open_with_inbox(conn *c, const options *o, const char *name) {
    snprintf(inbox, sizeof inbox, "_INBOX.%08llx", (unsigned long long)(now_ns() ^ getpid()) & 0xffffffffULL);
    conn_open(c, o, name);
    c->in_cap = READ_CHUNK_BYTES;
    c->in = realloc(c->in, c->in_cap);
    if (c->in == NULL) die("out of memory");
    conn_queuef(c, "SUB %s.* 1\r\n", inbox);
    conn_sync(c);
}

void api_request(conn *c, event *e, const char *subject, const char *body) {
    conn_queuef(c, "PUB $JS.API.%s %s.api %zu\r\n%s\r\n", subject, inbox, strlen(body), body);
    conn_flush(c);
    do conn_wait(c, e);
    while (e->kind != EVENT_MSG);
    if (e->headers_len > 0) die("%s: no JetStream", subject);
    if (bytes_contain(e->payload, e->payload_len, "\"error\""))
        die("%s: %.*s", subject, (int)e->payload_len, e->payload);
}

static void create_stream(conn *c, const options *o) {
    char subject[256], body[512];
    event e;
    snprintf(subject, sizeof subject, "STREAM.CREATE.%s", o->stream);
    snprintf(body, sizeof body, "{\"name\":\"%s\",\"subjects\":[\"%s\"],\"storage\":\"%s\",\"num_replicas\":1}", o->stream,
             SUBJECT, o->storage);
    api_request(c, &e, subject, body);
}

static void delete_stream(conn *c, const options *o) {
    char subject[256];
    event e;
    snprintf(subject, sizeof subject, "STREAM.DELETE.%s", o->stream);
    api_request(c, &e, subject, "");
}

typedef struct {
    char *bytes;
    size_t len;
    char *number; /* last digit of the message number */
} template;

static void make_template(template *t, const options *o) {
    t->bytes = xmalloc((size_t)o->size + 256);
    int n = sprintf(t->bytes, "PUB %s %s.%0*d %ld\r\n", SUBJECT, inbox, NUMBER_DIGITS, 0, o->size);
    t->number = strstr(t->bytes, inbox) + strlen(inbox) + NUMBER_DIGITS;
    memset(t->bytes + n, 'x', (size_t)o->size);
    memcpy(t->bytes + n + o->size, "\r\n", 2);
    t->len = (size_t)n + (size_t)o->size + 2;
}

static void next_number(template *t) {
    char *digit = t->number;
    while (*digit == '9') *digit-- = '0';
    ++*digit;
}

static long take_acks(conn *c) {
    event e;
    long acks = 0;
    while (conn_next(c, &e)) {
        if (e.kind != EVENT_MSG) continue;
        if (!bytes_contain(e.payload, e.payload_len, "\"seq\"") || bytes_contain(e.payload, e.payload_len, "\"error\""))
            die("publish refused: %.*s%.*s", (int)e.headers_len, e.headers, (int)e.payload_len, e.payload);
        acks++;
    }
    return acks;
}

/* Publishes o->msgs messages, at most o->inflight of them unacknowledged. Returns nanoseconds. `samples` (or NULL)
 * gets each round trip when one message is in flight. */
static int64_t publish_all(conn *c, const options *o, long inflight, int64_t *samples) {
    template t;
    make_template(&t, o);
    int64_t start = now_ns();
    for (long sent = 0, acked = 0; acked < o->msgs;) {
        int64_t round = now_ns();
        for (; sent < o->msgs && sent - acked < inflight; sent++) {
            conn_queue(c, t.bytes, t.len);
            next_number(&t);
            if (c->out_len >= WRITE_BLOCK_BYTES) conn_flush(c);
        }
        conn_flush(c);
        long before = acked;
        while (acked == before) {
            conn_fill(c, 1);
            acked += take_acks(c);
        }
        if (acked > sent) die("more acks than messages");
        if (samples != NULL) samples[before] = now_ns() - round;
    }
    int64_t elapsed = now_ns() - start;
    free(t.bytes);
    return elapsed;
}

int run_jspub(const options *o) {
    conn c;
    int64_t *samples = o->inflight == 1 ? xmalloc(sizeof *samples * (size_t)o->msgs) : NULL;
    open_with_inbox(&c, o, "publisher");
    create_stream(&c, o);
    int64_t cpu = cpu_ns(o->pid);
    double seconds = (double)publish_all(&c, o, o->inflight, samples) / 1e9;
    cpu = cpu_ns(o->pid) - cpu;
    if (!o->keep) delete_stream(&c, o);
    printf("{\"mode\":\"jspub\",\"storage\":\"%s\",\"inflight\":%ld,\"size\":%ld,\"msgs\":%ld,\"seconds\":%.6f,"
           "\"rate\":%.0f,\"cpu_ns\":%.1f",
           o->storage, o->inflight, o->size, o->msgs, seconds, (double)o->msgs / seconds,
           (double)cpu / (double)o->msgs);
    if (samples != NULL) {
        double median = percentile_us(samples, o->msgs, 50), p99 = percentile_us(samples, o->msgs, 99);
        printf(",\"median_us\":%.1f,\"p99_us\":%.1f", median, p99);
    }
    printf("}\n");
    conn_close(&c);
    return 0;
}

/* ---- pull ---------------------------------------------------------------------------------------------------- */

static void create_consumer(conn *c, const options *o) {
    char subject[256], body[512], group[96] = "";
    event e;
    if (strcmp(o->priority, "none") != 0)
        snprintf(group, sizeof group, ",\"priority_policy\":\"%s\",\"priority_groups\":[\"g\"]", o->priority);
    snprintf(subject, sizeof subject, "CONSUMER.CREATE.%s." CONSUMER, o->stream);
    snprintf(body, sizeof body,
             "{\"stream_name\":\"%s\",\"config\":{\"name\":\"" CONSUMER "\",\"durable_name\":\"" CONSUMER
             "\",\"ack_policy\":\"%s\",\"deliver_policy\":\"all\"%s}}",
             o->stream, o->ack, group);
    api_request(c, &e, subject, body);
}

static void request_batch(conn *c, const options *o, long number, long batch) {
    char body[192], group[96] = "";
    if (strcmp(o->priority, "overflow") == 0) snprintf(group, sizeof group, ",\"group\":\"g\",\"min_pending\":1");
    if (strcmp(o->priority, "pinned_client") == 0) snprintf(group, sizeof group, ",\"group\":\"g\",\"id\":\"%s\"", pin);
    int n = snprintf(body, sizeof body, "{\"batch\":%ld,\"expires\":60000000000%s}", batch, group);
    conn_queuef(c, "PUB $JS.API.CONSUMER.MSG.NEXT.%s." CONSUMER " %s.%ld %d\r\n%s\r\n", o->stream, inbox, number, n, body);
}

/* The pin of the first message; later ones say the same. */
static int take_pin(const event *e) {
    const char *key = "Nats-Pin-Id: ", *found = memmem(e->headers, e->headers_len, key, strlen(key));
    if (found == NULL) return 0;
    if (pin[0] == '\0') snprintf(pin, sizeof pin, "%.*s", (int)strcspn(found + strlen(key), "\r"), found + strlen(key));
    return 1;
}

/* Takes every message there is; explicit acks are queued and leave with the next flush. */
static long take_messages(conn *c, const options *o, int explicit_acks) {
    event e;
    long taken = 0;
    while (conn_next(c, &e)) {
        if (e.kind != EVENT_MSG) continue;
        if (e.reply_len == 0 || (e.headers_len > 0 && !take_pin(&e)) || (long)e.payload_len != o->size)
            die("not a stream message: %.*s%.*s", (int)e.headers_len, e.headers, (int)e.payload_len, e.payload);
        if (explicit_acks) {
            conn_queue(c, "PUB ", 4);
            conn_queue(c, e.reply, e.reply_len);
            conn_queue(c, " 4\r\n+ACK\r\n", 10);
        }
        taken++;
    }
    return taken;
}

static void wait_until_acked(conn *c, const options *o) {
    char subject[256];
    event e;
    int64_t pending = -1;
    snprintf(subject, sizeof subject, "CONSUMER.INFO.%s." CONSUMER, o->stream);
    for (int attempt = 0; attempt < 500 && pending != 0; attempt++) {
        if (attempt > 0) usleep(10000);
        api_request(c, &e, subject, "");
        pending = json_number(e.payload, e.payload_len, "\"num_ack_pending\"");
    }
    if (pending != 0) die("%lld messages still wait for their ack", (long long)pending);
}

int run_jspull(const options *o) {
    conn c;
    int explicit_acks = strcmp(o->ack, "explicit") == 0;
    open_with_inbox(&c, o, "consumer");
    create_stream(&c, o);
    publish_all(&c, o, 1000, NULL);
    create_consumer(&c, o);
    long taken = 0, requested = 0, requests = 0;
    int64_t start = now_ns(), cpu = cpu_ns(o->pid);
    while (taken < o->msgs) {
        /* the next batch is asked for when half of the last one is here */
        while (requested < o->msgs && requested - taken <= o->batch / 2) {
            long batch = o->msgs - requested < o->batch ? o->msgs - requested : o->batch;
            request_batch(&c, o, requests++, batch);
            requested += batch;
        }
        conn_flush(&c);
        conn_fill(&c, 1);
        taken += take_messages(&c, o, explicit_acks);
    }
    conn_sync(&c);
    double seconds = (double)(now_ns() - start) / 1e9;
    cpu = cpu_ns(o->pid) - cpu;
    if (taken > o->msgs) die("%ld messages, expected %ld", taken, o->msgs);
    if (explicit_acks) wait_until_acked(&c, o);
    delete_stream(&c, o);
    printf("{\"mode\":\"jspull\",\"storage\":\"%s\",\"ack\":\"%s\",\"batch\":%ld,\"size\":%ld,\"msgs\":%ld,\"seconds\":%.6f,"
           "\"rate\":%.0f,\"cpu_ns\":%.1f}\n",
           o->storage, o->ack, o->batch, o->size, o->msgs, seconds, (double)o->msgs / seconds,
           (double)cpu / (double)o->msgs);
    conn_close(&c);
    return 0;
}
