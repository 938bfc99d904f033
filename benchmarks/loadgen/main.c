/* Options and dispatch. */
#include "loadgen.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: loadgen MODE [--host A] [--port N] [--timeout SECONDS] [options]\n"
    "  core    --pubs P --subs S --size N --msgs M [--subjects K] [--window-mib W] [--sub-port N]\n"
    "          [--pid SERVER_PID]\n"
    "  reqrep  --msgs M [--size N] [--sub-port N]\n"
    "  jspub   --storage file|memory --inflight I --size N --msgs M [--stream NAME] [--keep]\n"
    "          [--pid SERVER_PID]\n"
    "  jspull  --batch B --ack explicit|none --size N --msgs M [--storage file|memory]\n"
    "          [--priority none|overflow|pinned_client] [--pid SERVER_PID]\n"
    "  kv      --subjects KEYS --msgs GETS --conns C --inflight I --size N [--storage file|memory]\n"
    "  fastbatch --msgs M --inflight I --batch FLOW --size N\n"
    "  idle    --conns N [--pid SERVER_PID]\n"
    "  interest --subjects N --conns C --msgs M [--hot H] [--size N] [--pid SERVER_PID]\n"
    "--msgs is the number of messages published by all publishers together.\n";

static void on_alarm(int signal_number) {
    static const char text[] = "loadgen: timed out\n";
    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(3);
    _exit(2);
}

static long number(const char *name, const char *text, long least) {
    char *end;
    long value = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value < least) die("--%s: bad value: %s", name, text);
    return value;
}

enum { HOST = 256, STORAGE, ACK, STREAM, KEEP, HOT, SUB_PORT, PRIORITY };

static int parse_options(int argc, char **argv, options *o, long *timeout_s) {
    static const struct option table[] = {
        {"host", 1, NULL, HOST},       {"port", 1, NULL, 'p'},     {"timeout", 1, NULL, 't'}, {"pubs", 1, NULL, 'P'},
        {"subs", 1, NULL, 'S'},        {"size", 1, NULL, 's'},     {"msgs", 1, NULL, 'm'},    {"subjects", 1, NULL, 'k'},
        {"window-mib", 1, NULL, 'w'},  {"conns", 1, NULL, 'n'},    {"pid", 1, NULL, 'i'},     {"inflight", 1, NULL, 'f'},
        {"batch", 1, NULL, 'b'},       {"storage", 1, NULL, STORAGE}, {"ack", 1, NULL, ACK},  {"stream", 1, NULL, STREAM},
        {"keep", 0, NULL, KEEP},       {"hot", 1, NULL, HOT},     {"sub-port", 1, NULL, SUB_PORT}, {"priority", 1, NULL, PRIORITY},
        {NULL, 0, NULL, 0},
    };
    int code, index = 0;
    while ((code = getopt_long(argc, argv, "", table, &index)) != -1) {
        const char *name = table[index].name;
        switch (code) {
        case HOST: o->host = optarg; break;
        case STORAGE: o->storage = optarg; break;
        case ACK: o->ack = optarg; break;
        case PRIORITY: o->priority = optarg; break;
        case STREAM: o->stream = optarg; break;
        case KEEP: o->keep = 1; break;
        case HOT: o->hot = number(name, optarg, 0); break;
        case SUB_PORT: o->sub_port = (int)number(name, optarg, 1); break;
        case 'p': o->port = (int)number(name, optarg, 1); break;
        case 't': *timeout_s = number(name, optarg, 1); break;
        case 'P': o->pubs = number(name, optarg, 1); break;
        case 'S': o->subs = number(name, optarg, 0); break;
        case 's': o->size = number(name, optarg, 0); break;
        case 'm': o->msgs = number(name, optarg, 1); break;
        case 'k': o->subjects = number(name, optarg, 1); break;
        case 'w': o->window_mib = number(name, optarg, 1); break;
        case 'n': o->conns = number(name, optarg, 1); break;
        case 'i': o->pid = number(name, optarg, 1); break;
        case 'f': o->inflight = number(name, optarg, 1); break;
        case 'b': o->batch = number(name, optarg, 1); break;
        default: return -1;
        }
    }
    if (strcmp(o->storage, "file") != 0 && strcmp(o->storage, "memory") != 0) return -1;
    if (strcmp(o->ack, "explicit") != 0 && strcmp(o->ack, "none") != 0) return -1;
    if (strcmp(o->priority, "none") != 0 && strcmp(o->priority, "overflow") != 0 &&
        strcmp(o->priority, "pinned_client") != 0)
        return -1;
    return optind == argc ? 0 : -1;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        int (*run)(const options *);
    } modes[] = {{"core", run_core},     {"reqrep", run_reqrep}, {"jspub", run_jspub},
                 {"jspull", run_jspull}, {"idle", run_idle},   {"interest", run_interest},
                 {"kv", run_kv},         {"fastbatch", run_fastbatch}};
    options o = {.host = "127.0.0.1", .port = 4222, .pubs = 1, .subs = 1, .size = 16, .msgs = 1000000, .subjects = 1,
                 .conns = 1000, .inflight = 1000, .batch = 500, .window_mib = 16, .storage = "file",
                 .ack = "explicit", .stream = "BENCH", .priority = "none"};
    long timeout_s = 120;
    if (argc < 2 || parse_options(argc - 1, argv + 1, &o, &timeout_s) != 0) {
        fputs(usage, stderr);
        return 64;
    }
    signal(SIGALRM, on_alarm);
    alarm((unsigned)timeout_s);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (strcmp(argv[1], modes[i].name) == 0) return modes[i].run(&o);
    fputs(usage, stderr);
    return 64;
}
