/*
 * stream.h - server-sent events to one client.
 *
 * A stream is the answer to one request: 200, text/event-stream. Messages are queued and sent
 * as the client takes them; beyond STREAM_QUEUE_MAX what may be dropped is dropped, and a
 * client that does not even take the rest is cut off. A comment goes out when nothing else did
 * for 15 s. An idle stream costs no thread and a few KB. Any thread may send.
 */
#ifndef SERVE_HTTP_STREAM_H
#define SERVE_HTTP_STREAM_H

#include <stdbool.h>

#include "base/str.h"
#include "serve/http/request.h"

#define STREAM_QUEUE_MAX    (4u << 20)  /* bytes unsent */
#define STREAM_NOTICE_MAX   (64u << 10) /* bytes unsent above which notices are dropped */
#define STREAM_KEEPALIVE_MS 15000

struct event_stream;

/* Answers the request with a stream. Headers are set before by request_set_header(). Never
 * fails: when the client is gone the stream is closed from the start. One reference is the
 * caller's. */
struct event_stream *stream_open(struct request *r);
/* "event: message" with one line of data; `message` has no line breaks. False when it was
 * dropped or nobody reads any more. */
bool stream_send(struct event_stream *s, struct str message, bool may_drop);
bool stream_is_of(const struct event_stream *s, const struct request *r);
/* What is queued is still sent, then the answer ends. Idempotent. */
void stream_close(struct event_stream *s);
void stream_unref(struct event_stream *s);

#endif
