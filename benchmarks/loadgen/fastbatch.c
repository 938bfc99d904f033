/* One fast batch: answered now and then, and a publisher that is so far ahead of the answers at most. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGIN, GO_ON, COMMIT };

static void queue_member(conn *c, const options *o, long number, const char *payload) {
    int operation = number == o->msgs ? COMMIT : number == 1 ? BEGIN : GO_ON;
    conn_queuef(c, "PUB fast %s.b.%ld.fail.%ld.%d.$FI %ld\r\n", inbox, o->batch, number, operation, o->size);
    conn_queue(c, payload, (size_t)o->size + 2);
}

/* What was told last: so many are stored. -1: the batch is committed. */
static long take_told(conn *c, long told) {
    event e;
    while (conn_next(c, &e)) {
        if (e.kind != EVENT_MSG) continue;
        if (bytes_contain(e.payload, e.payload_len, "\"error\"") || bytes_contain(e.payload, e.payload_len, "\"gap\""))
            die("refused: %.*s", (int)e.payload_len, e.payload);
        if (bytes_contain(e.payload, e.payload_len, "\"batch\":")) return -1;
        long seq = (long)json_number(e.payload, e.payload_len, "\"seq\"");
        if (seq > told) told = seq;
    }
    return told;
}

int run_fastbatch(const options *o) {
    conn c;
    event e;
    char *payload = xmalloc((size_t)o->size + 2);
    memset(payload, 'x', (size_t)o->size);
    memcpy(payload + o->size, "\r\n", 2);
    open_with_inbox(&c, o, "publisher");
    conn_queuef(&c, "SUB %s.b.> 2\r\n", inbox);
    api_request(&c, &e, "STREAM.CREATE.FAST",
                "{\"name\":\"FAST\",\"subjects\":[\"fast\"],\"storage\":\"file\",\"allow_batched\":true}");
    int64_t start = now_ns();
    for (long sent = 0, told = 0; told >= 0;) {
        for (; sent < o->msgs && sent - told < o->inflight; sent++) queue_member(&c, o, sent + 1, payload);
        conn_flush(&c);
        conn_fill(&c, 1);
        told = take_told(&c, told);
    }
    double seconds = (double)(now_ns() - start) / 1e9;
    printf("{\"mode\":\"fastbatch\",\"flow\":%ld,\"inflight\":%ld,\"size\":%ld,\"msgs\":%ld,\"seconds\":%.6f,\"rate\":%.0f}\n",
           o->batch, o->inflight, o->size, o->msgs, seconds, (double)o->msgs / seconds);
    conn_close(&c);
    free(payload);
    return 0;
}
