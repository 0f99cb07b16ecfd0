/*
 * fake_agent.h - a box whose agent follows a script.
 *
 * Each connect() of the box opens the next scripted connection: a thread plays its
 * steps on the other end of a socketpair and keeps every frame it heard. Write the
 * script, run the operation, fake_join(), then look at what was heard.
 */
#ifndef TESTS_FAKE_AGENT_H
#define TESTS_FAKE_AGENT_H

#include <pthread.h>

#include "agent/proto.h"
#include "agent/wire.h"
#include "base/buf.h"
#include "provider/over_agent.h"

#define FAKE_CONNECTIONS 8
#define FAKE_STEPS       32

enum fake_do {
    FAKE_SAY,     /* these bytes, at once */
    FAKE_TRICKLE, /* these bytes, one by one */
    FAKE_HEAR,    /* wait for a frame of this type (others before it are kept as well) */
    FAKE_SLEEP,   /* ms */
    FAKE_LISTEN,  /* until the client closes */
    FAKE_CALL,    /* run a function of the test */
};

struct fake_step {
    enum fake_do what;
    struct buf bytes;
    uint8_t type;
    int ms;
    void (*call)(void *arg);
    void *arg;
};

struct fake_connection {
    struct fake_step steps[FAKE_STEPS];
    size_t n_steps;
    int fd;
    pthread_t thread;
    bool opened;
    struct buf heard; /* whole frames, one after another */
    size_t looked;    /* of heard, by FAKE_HEAR */
};

struct fake_agent {
    struct agent_box agent; /* give &fake.agent.box to what is tested */
    struct fake_connection connections[FAKE_CONNECTIONS];
    size_t n_opened;
    uint8_t limits; /* LIMITED_* of the ends that are added next */
};

void fake_init(struct fake_agent *f);
void fake_join(struct fake_agent *f); /* waits for the scripts that were started */
void fake_fini(struct fake_agent *f);

/* Steps of connection number `c`, in order. */
struct fake_step *fake_add(struct fake_agent *f, size_t c, enum fake_do what);
void fake_hear(struct fake_agent *f, size_t c, uint8_t type);
void fake_hello(struct fake_agent *f, size_t c); /* our version */
void fake_hello_of(struct fake_agent *f, size_t c, uint32_t version, uint32_t lowest);
void fake_started(struct fake_agent *f, size_t c);
void fake_data(struct fake_agent *f, size_t c, uint8_t stream, uint64_t offset, struct str bytes);
void fake_ended(struct fake_agent *f, size_t c, uint8_t how, uint32_t code, uint64_t out_bytes,
                uint64_t err_bytes);
void fake_fail(struct fake_agent *f, size_t c, enum err_kind kind, const char *message);
void fake_entry(struct fake_agent *f, size_t c, const char *path, uint8_t type, uint64_t size);
void fake_chunk(struct fake_agent *f, size_t c, struct str bytes);
void fake_ok(struct fake_agent *f, size_t c, uint8_t more);
void fake_raw(struct fake_agent *f, size_t c, struct str bytes);

/* The n-th frame (from 0) of this type that connection `c` heard; false: none. */
bool fake_heard(const struct fake_agent *f, size_t c, uint8_t type, size_t n, struct frame *out);

#endif
