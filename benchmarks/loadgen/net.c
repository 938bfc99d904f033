/* One blocking connection, and the helpers every mode needs. */
#define _GNU_SOURCE
#include "loadgen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("loadgen: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void *xmalloc(size_t n) {
    void *p = malloc(n);
    if (p == NULL) die("out of memory (%zu bytes)", n);
    return p;
}

int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t cpu_ns(long pid) {
    clockid_t clock;
    struct timespec t;
    if (pid == 0) return 0;
    if (clock_getcpuclockid((pid_t)pid, &clock) != 0 || clock_gettime(clock, &t) != 0) die("no process %ld", pid);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare_samples(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

double percentile_us(int64_t *samples, long n, double percent) {
    if (n <= 0) return 0.0;
    qsort(samples, (size_t)n, sizeof *samples, compare_samples);
    long i = (long)((double)n * percent / 100.0);
    if (i >= n) i = n - 1;
    return (double)samples[i] / 1000.0;
}

int bytes_contain(const char *p, size_t n, const char *needle) {
    return memmem(p, n, needle, strlen(needle)) != NULL;
}

int64_t json_number(const char *p, size_t n, const char *key) {
    const char *at = memmem(p, n, key, strlen(key));
    const char *end = p + n;
    if (at == NULL) return -1;
    at += strlen(key);
    while (at < end && (*at == ':' || *at == ' ')) at++;
    if (at == end || *at < '0' || *at > '9') return -1;
    int64_t value = 0;
    while (at < end && *at >= '0' && *at <= '9') value = value * 10 + (*at++ - '0');
    return value;
}

void conn_write(conn *c, const char *p, size_t n) {
    while (n > 0) {
        ssize_t sent = send(c->fd, p, n, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR) continue;
            /* the server's reason for closing is worth more than "broken pipe" */
            event e;
            while (conn_fill(c, 0) > 0)
                while (conn_next(c, &e)) continue;
            die("%s: write: %s", c->name, strerror(errno));
        }
        p += sent;
        n -= (size_t)sent;
    }
}

static void reserve_out(conn *c, size_t n) {
    if (c->out_len + n <= c->out_cap) return;
    while (c->out_len + n > c->out_cap) c->out_cap = c->out_cap ? c->out_cap * 2 : 65536;
    c->out = realloc(c->out, c->out_cap);
    if (c->out == NULL) die("out of memory");
}

void conn_queue(conn *c, const char *p, size_t n) {
    reserve_out(c, n);
    memcpy(c->out + c->out_len, p, n);
    c->out_len += n;
}

void conn_queuef(conn *c, const char *format, ...) {
    char line[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line) die("line too long");
    conn_queue(c, line, (size_t)n);
}

void conn_flush(conn *c) {
    size_t n = c->out_len;
    c->out_len = 0;
    if (n > 0) conn_write(c, c->out, n);
}

size_t conn_fill(conn *c, int wait) {
    if (c->in_pos > 0) {
        memmove(c->in, c->in + c->in_pos, c->in_len - c->in_pos);
        c->in_len -= c->in_pos;
        c->in_pos = 0;
    }
    if (c->in_len == c->in_cap) { /* one message larger than the buffer */
        c->in_cap = c->in_cap ? c->in_cap * 2 : 4096;
        c->in = realloc(c->in, c->in_cap);
        if (c->in == NULL) die("out of memory");
    }
    for (;;) {
        ssize_t n = recv(c->fd, c->in + c->in_len, c->in_cap - c->in_len, wait ? 0 : MSG_DONTWAIT);
        if (n > 0) {
            c->in_len += (size_t)n;
            return (size_t)n;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && !wait && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        die("%s: %s", c->name, n == 0 ? "the server closed the connection" : strerror(errno));
    }
}

static size_t parse_size(const char *p, size_t n) {
    size_t value = 0;
    if (n == 0 || n > 9) die("bad size in a MSG line");
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') die("bad size in a MSG line");
        value = value * 10 + (size_t)(p[i] - '0');
    }
    return value;
}

/* MSG subject sid [reply] size, HMSG subject sid [reply] headers total */
static int parse_message(conn *c, event *e, const char *line, size_t line_len, int with_headers) {
    const char *field[6], *p = line + (with_headers ? 5 : 4), *end = line + line_len;
    size_t length[6], fields = 0, headers = 0, total;
    while (p < end && fields < 6) {
        const char *blank = memchr(p, ' ', (size_t)(end - p));
        field[fields] = p;
        length[fields++] = (size_t)((blank ? blank : end) - p);
        p = blank ? blank + 1 : end;
    }
    size_t expected = with_headers ? 4 : 3;
    if (fields != expected && fields != expected + 1) die("%s: bad line: %.*s", c->name, (int)line_len, line);
    total = parse_size(field[fields - 1], length[fields - 1]);
    if (with_headers) headers = parse_size(field[fields - 2], length[fields - 2]);
    size_t body_at = c->in_pos + line_len + 2;
    if (body_at + total + 2 > c->in_len) return 0;
    if (headers > total || memcmp(c->in + body_at + total, "\r\n", 2) != 0) die("%s: a message without its end", c->name);
    e->kind = EVENT_MSG;
    e->subject = field[0], e->subject_len = length[0];
    e->sid = field[1], e->sid_len = length[1];
    e->reply = fields > expected ? field[2] : NULL;
    e->reply_len = fields > expected ? length[2] : 0;
    e->headers = c->in + body_at, e->headers_len = headers;
    e->payload = c->in + body_at + headers, e->payload_len = total - headers;
    c->in_pos = body_at + total + 2;
    return 1;
}

int conn_next(conn *c, event *e) {
    const char *line = c->in + c->in_pos;
    const char *lf = memchr(line, '\n', c->in_len - c->in_pos);
    if (lf == NULL) return 0;
    size_t n = (size_t)(lf - line);
    if (n == 0 || line[n - 1] != '\r') die("%s: a line without CR LF", c->name);
    n--;
    if (n > 4 && memcmp(line, "MSG ", 4) == 0) return parse_message(c, e, line, n, 0);
    if (n > 5 && memcmp(line, "HMSG ", 5) == 0) return parse_message(c, e, line, n, 1);
    memset(e, 0, sizeof *e);
    if (n == 4 && memcmp(line, "PING", 4) == 0) {
        e->kind = EVENT_PING;
        conn_write(c, "PONG\r\n", 6);
    } else if (n == 4 && memcmp(line, "PONG", 4) == 0) {
        e->kind = EVENT_PONG;
    } else if (n > 5 && memcmp(line, "INFO ", 5) == 0) {
        e->kind = EVENT_INFO;
    } else if (n == 3 && memcmp(line, "+OK", 3) == 0) {
        e->kind = EVENT_OK;
    } else {
        die("%s: the server said: %.*s", c->name, (int)n, line);
    }
    c->in_pos += n + 2;
    return 1;
}

void conn_wait(conn *c, event *e) {
    while (!conn_next(c, e)) conn_fill(c, 1);
}

void conn_sync(conn *c) {
    event e;
    conn_queue(c, "PING\r\n", 6);
    conn_flush(c);
    do conn_wait(c, &e);
    while (e.kind != EVENT_PONG);
}

void conn_dial(conn *c, const options *o, const char *name) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)o->port)};
    int one = 1;
    memset(c, 0, sizeof *c);
    c->name = name;
    if (inet_pton(AF_INET, o->host, &address.sin_addr) != 1) die("bad IPv4 address: %s", o->host);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) die("socket: %s", strerror(errno));
    if (connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0)
        die("%s: connect to %s:%d: %s", name, o->host, o->port, strerror(errno));
    if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) die("setsockopt: %s", strerror(errno));
}

void conn_greet(conn *c) {
    static const char connect_line[] =
        "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":true,"
        "\"protocol\":1,\"lang\":\"c\",\"version\":\"1\",\"name\":\"loadgen\"}\r\n";
    event e;
    conn_wait(c, &e);
    if (e.kind != EVENT_INFO) die("%s: no INFO", c->name);
    conn_queue(c, connect_line, sizeof connect_line - 1);
}

void conn_open(conn *c, const options *o, const char *name) {
    conn_dial(c, o, name);
    conn_greet(c);
}

void conn_open_far(conn *c, const options *o, const char *name) {
    options far = *o;
    if (o->sub_port) far.port = o->sub_port;
    conn_open(c, &far, name);
}

void conn_close(conn *c) {
    close(c->fd);
    free(c->in);
    free(c->out);
    c->in = c->out = NULL;
}
