/* Ping-pong and streams of pairs of ranks: of 2n ranks, rank i and rank i + n. */
#include "mpi_bench.h"
#include <stdlib.h>

enum { CLOCK_EVERY = 16 /* messages of a stream */ };

static int is_first(void)
{
    return rank < ranks / 2;
}

static int partner(void)
{
    return (rank + ranks / 2) % ranks;
}

/* Ping-pong. */

struct ping_pong {
    uint8_t *data;
    int64_t bytes;
    int64_t validate;
    int64_t sequence;
};

static void one_way(struct ping_pong *p, int to)
{
    if (p->validate)
        fill(p->data, p->bytes, rank, p->sequence);
    MPI_Send(p->data, (int)p->bytes, MPI_BYTE, to, TAG, MPI_COMM_WORLD);
}

static void other_way(struct ping_pong *p, int from)
{
    MPI_Recv(p->data, (int)p->bytes, MPI_BYTE, from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (p->validate)
        check(p->data, p->bytes, from, p->sequence);
}

static void round_trips(void *state, int64_t count, int64_t *times_ns)
{
    struct ping_pong *p = state;
    int peer = partner();
    for (int64_t i = 0; i < count; i++, p->sequence++) {
        if (is_first()) {
            int64_t start = now_ns();
            one_way(p, peer);
            other_way(p, peer);
            times_ns[i] = now_ns() - start;
        } else {
            other_way(p, peer);
            one_way(p, peer);
        }
    }
}

void measure_latency(const struct measurement *m)
{
    struct ping_pong p = { allocate(m->bytes), m->bytes, m->validate, 0 };
    int64_t count = measure(m, round_trips, &p);
    print_times_of(ranks / 2, count);
    free(p.data);
}

/* A stream from the first of a pair to the other: as many messages in flight as the depth says. A
 * slot is used again when its message is done, the oldest first. After the last message come
 * depth - 1 more, so that every receive that was posted has its message. */

struct stream {
    uint8_t *data;
    MPI_Request *slots;
    int64_t depth;
    /* The receiver's window: from the end of the warm-up to a moment when messages still come. */
    int64_t begun_ns;
    int64_t opened_ns;
    int64_t messages;
    double seconds;
};

static void stream_out(struct stream *s, const struct measurement *m)
{
    /* A little longer than the receiver's window. */
    int64_t end_ns = now_ns() + (m->warmup_ms + m->duration_ms) * 1100000;
    int64_t last = m->iterations > 0 ? m->iterations + 2 * s->depth : -1;
    for (int64_t i = 0; last < 0 || i < last + s->depth; i++) {
        int64_t slot = i % s->depth;
        uint8_t *data = s->data + slot * m->bytes;
        if (i >= s->depth)
            MPI_Wait(&s->slots[slot], MPI_STATUS_IGNORE);
        if (last < 0 && i % CLOCK_EVERY == 0 && now_ns() >= end_ns)
            last = i;
        if (m->validate)
            fill(data, m->bytes, rank, i);
        MPI_Isend(data, (int)m->bytes, MPI_BYTE, partner(), i == last ? TAG_LAST : TAG,
                  MPI_COMM_WORLD, &s->slots[slot]);
    }
    MPI_Waitall((int)s->depth, s->slots, MPI_STATUSES_IGNORE);
}

static void post_receive(struct stream *s, int64_t slot, int64_t bytes)
{
    MPI_Irecv(s->data + slot * bytes, (int)bytes, MPI_BYTE, partner(), MPI_ANY_TAG, MPI_COMM_WORLD,
              &s->slots[slot]);
}

/* Message number i has come. */
static void watch(struct stream *s, const struct measurement *m, int64_t i, int is_last)
{
    int is_counted = m->iterations > 0;
    if (s->seconds > 0 || (!is_counted && !is_last && i % CLOCK_EVERY != 0))
        return;
    int64_t now = now_ns();
    if (!s->opened_ns) {
        int opens = is_counted ? i + 1 == s->depth : now - s->begun_ns >= m->warmup_ms * 1000000;
        s->opened_ns = opens ? now : 0;
        s->messages = -i;
        return;
    }
    int closes = is_counted ? i + 1 == s->depth + m->iterations
                            : is_last || now - s->opened_ns >= m->duration_ms * 1000000;
    if (closes) {
        s->messages += i;
        s->seconds = (double)(now - s->opened_ns) / 1e9;
    }
}

static void stream_in(struct stream *s, const struct measurement *m)
{
    int64_t last = -1;
    for (int64_t i = 0; last < 0 || i < last + s->depth; i++) {
        int64_t slot = i % s->depth;
        MPI_Status status;
        MPI_Wait(&s->slots[slot], &status);
        if (m->validate)
            check(s->data + slot * m->bytes, m->bytes, partner(), i);
        if (status.MPI_TAG == TAG_LAST)
            last = i;
        if (last < 0)
            post_receive(s, slot, m->bytes);
        watch(s, m, i, i == last);
    }
}

void measure_bandwidth(const struct measurement *m)
{
    struct stream s = { allocate(m->bytes * m->depth),
                        allocate(m->depth * (int64_t)sizeof(MPI_Request)), m->depth, 0, 0, 0, 0 };
    for (int64_t slot = 0; !is_first() && slot < s.depth; slot++)
        post_receive(&s, slot, m->bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    s.begun_ns = now_ns();
    if (is_first())
        stream_out(&s, m);
    else
        stream_in(&s, m);
    if (is_first())
        print_stream(0, 0);
    else
        print_stream((double)s.messages, s.seconds);
    free(s.data);
    free(s.slots);
}

/* Both directions at once: every rank sends, and sends the next message of a slot when the last one
 * is done and the partner's has come. Between two rounds nothing is in flight. */

struct exchange {
    uint8_t *out, *in;
    MPI_Request *sends, *receives;
    int64_t bytes, depth, validate;
    int64_t sequence;
};

static void receive_next(struct exchange *e, int64_t slot)
{
    MPI_Irecv(e->in + slot * e->bytes, (int)e->bytes, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD,
              &e->receives[slot]);
}

static void send_next(struct exchange *e, int64_t slot, int64_t message)
{
    uint8_t *data = e->out + slot * e->bytes;
    if (e->validate)
        fill(data, e->bytes, rank, message);
    MPI_Isend(data, (int)e->bytes, MPI_BYTE, partner(), TAG, MPI_COMM_WORLD, &e->sends[slot]);
}

static void finish(struct exchange *e, int64_t slot, int64_t message)
{
    MPI_Wait(&e->sends[slot], MPI_STATUS_IGNORE);
    MPI_Wait(&e->receives[slot], MPI_STATUS_IGNORE);
    if (e->validate)
        check(e->in + slot * e->bytes, e->bytes, partner(), message);
}

/* An operation is a window: as many messages as the depth says, each way. Each gets its part of the
 * time of all. */
static void windows(void *state, int64_t count, int64_t *times_ns)
{
    struct exchange *e = state;
    int64_t messages = count * e->depth, first = e->sequence, begun = now_ns();
    for (int64_t slot = 0; slot < e->depth; slot++)
        receive_next(e, slot);
    for (int64_t i = 0; i < messages; i++) {
        int64_t slot = i % e->depth;
        if (i >= e->depth) {
            finish(e, slot, first + i - e->depth);
            receive_next(e, slot);
        }
        send_next(e, slot, first + i);
    }
    for (int64_t i = messages - e->depth; i < messages; i++)
        finish(e, i % e->depth, first + i);
    e->sequence += messages;
    int64_t took_ns = now_ns() - begun;
    for (int64_t i = 0; i < count; i++)
        times_ns[i] = took_ns / count;
}

void measure_bidirectional(const struct measurement *m)
{
    int64_t requests = m->depth * (int64_t)sizeof(MPI_Request), bytes = m->bytes * m->depth;
    struct exchange e = { allocate(bytes), allocate(bytes), allocate(requests), allocate(requests),
                          m->bytes, m->depth, m->validate, 0 };
    int64_t count = (m->iterations + m->depth - 1) / m->depth;
    if (count > 0) {
        windows(&e, 1, samples_ns());
        windows(&e, count, samples_ns());
    } else {
        count = measure(m, windows, &e);
    }
    double seconds = 0;
    for (int64_t i = 0; i < count; i++)
        seconds += (double)samples_ns()[i] / 1e9;
    print_stream((double)(count * m->depth), seconds);
    free(e.out);
    free(e.in);
    free(e.sends);
    free(e.receives);
}
