/* Lets a worker go on when others of its job have failed: it keeps its process and its memory, and
 * takes part in the next round. Described in docs/elastic.md. Nothing but this file is needed, in
 * C99 (with POSIX: -std=gnu99, or -D_POSIX_C_SOURCE=200809L) and in C++. Linux only.
 *
 *     ddprun_elastic elastic;
 *     int error = ddprun_elastic_open(&elastic);      // ENOENT: not under ddprun
 *     ... meet the other ranks, get the state ...
 *     for (step = 0; step < steps; ++step) {
 *       if (error == 0 && ddprun_elastic_interrupted(&elastic)) {
 *         ... leave the other ranks ...
 *         if (ddprun_elastic_next_round(&elastic, &step) != 0) exit(1);
 *         ... rank = atoi(ddprun_elastic_value(&elastic, "RANK")); meet the ranks again;
 *             get the state from rank DDPRUN_SOURCE_RANK, as all other ranks do ...
 *       }
 *       ...
 *     }
 *     ddprun_elastic_close(&elastic);
 *
 * A worker that reports its progress (ddprun_progress.h) closes its page before it waits for the
 * next round, and opens it when the other ranks are there: new ones may take long to start, and
 * until then it would count as one that hangs.
 *
 * ddprun_elastic_interrupted is for any thread at any time; of the others one call at a time. */
#ifndef DDPRUN_ELASTIC_H
#define DDPRUN_ELASTIC_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A connection to the agent of this node. Its frames are 4 bytes of length, big-endian, and that
 * many bytes. The first one in each direction is a hello; the bytes of all others are entries
 * NAME=VALUE, each with a NUL behind it. The first entry is `message`. */
typedef struct ddprun_elastic {
  int fd;       /* readable: the agent has interrupted this worker; -1: there is no connection */
  char* frame;  /* the newest message, with one more NUL behind it; NULL: none */
  size_t bytes; /* of it */
} ddprun_elastic;

enum ddprun_interrupt {
  DDPRUN_INTERRUPT_NONE = 0,
  /* Nothing has failed: the world is to change. All ranks should stop after the same step, and as
   * soon as they can agree on one. */
  DDPRUN_INTERRUPT_AFTER_STEP = 1,
  /* A rank is gone: a collective operation may never end. */
  DDPRUN_INTERRUPT_NOW = 2
};

/* No frame is longer: an agent that announced more would be another program. */
#define DDPRUN_ELASTIC_FRAME_MAX 65536U

/* Internal. Returns 0 or an errno. */
static inline int ddprun_elastic_send_(int fd, const char* bytes, size_t count) {
  char frame[256];
  size_t sent = 0;
  if (count + 4 > sizeof frame) return EMSGSIZE;
  frame[0] = frame[1] = 0;
  frame[2] = (char)(count >> 8 & 0xff);
  frame[3] = (char)(count & 0xff);
  memcpy(frame + 4, bytes, count);
  while (sent < count + 4) {
    const ssize_t n = send(fd, frame + sent, count + 4 - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    sent += (size_t)n;
  }
  return 0;
}

/* Internal. Returns 0 or an errno; ECONNRESET: the agent is gone. */
static inline int ddprun_elastic_receive_(int fd, char* bytes, size_t count) {
  size_t got = 0;
  while (got < count) {
    const ssize_t n = recv(fd, bytes + got, count - got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ECONNRESET;
    got += (size_t)n;
  }
  return 0;
}

/* Internal: the next frame becomes elastic->frame. Returns 0 or an errno. */
static inline int ddprun_elastic_read_(ddprun_elastic* elastic) {
  unsigned char header[4];
  uint32_t bytes;
  int error = ddprun_elastic_receive_(elastic->fd, (char*)header, sizeof header);
  if (error != 0) return error;
  bytes = (uint32_t)header[0] << 24 | (uint32_t)header[1] << 16 | (uint32_t)header[2] << 8 |
          (uint32_t)header[3];
  if (bytes > DDPRUN_ELASTIC_FRAME_MAX) return EPROTO;
  free(elastic->frame);
  elastic->bytes = 0;
  elastic->frame = (char*)malloc(bytes + 1);
  if (elastic->frame == NULL) return ENOMEM;
  error = ddprun_elastic_receive_(elastic->fd, elastic->frame, bytes);
  if (error != 0) return error;
  elastic->frame[bytes] = '\0';
  elastic->bytes = bytes;
  return 0;
}

/* The value of an entry of the newest message, such as "RANK" of a round; NULL: it has none. Valid
 * until the next call of another function. */
static inline const char* ddprun_elastic_value(const ddprun_elastic* elastic, const char* name) {
  const size_t length = strlen(name);
  size_t at = 0;
  if (elastic->frame == NULL) return NULL;
  while (at < elastic->bytes) {
    const char* entry = elastic->frame + at;
    if (strncmp(entry, name, length) == 0 && entry[length] == '=') return entry + length + 1;
    at += strlen(entry) + 1;
  }
  return NULL;
}

/* From here on this worker need not take part in another round. Also to be called after an error of
 * another function; may be repeated. */
static inline void ddprun_elastic_close(ddprun_elastic* elastic) {
  if (elastic->fd >= 0) close(elastic->fd);
  free(elastic->frame);
  elastic->fd = -1;
  elastic->frame = NULL;
  elastic->bytes = 0;
}

/* Tells the agent that this worker can take part in another round. From here on it is interrupted,
 * and not ended, when another one has failed; it has --grace-period to call
 * ddprun_elastic_next_round then. Returns 0, or an errno; ENOENT: there is no DDPRUN_SOCKET, so no
 * ddprun; EPERM: this process belongs to no worker of that ddprun; EPROTO: that ddprun is older
 * than this file; EAGAIN: it has not answered within 10 s. After an error the other functions may
 * be called: there is no interruption. */
static inline int ddprun_elastic_open(ddprun_elastic* elastic) {
  static const char kHello[] = "{\"ddprun\":\"job\",\"versions\":[1,1],\"features\":[\"elastic\"]}";
  static const char kJoin[] = "message=join";
  const struct timeval limit = {10, 0};
  const struct timeval none = {0, 0};
  const char* name = getenv("DDPRUN_SOCKET");
  const char* message;
  struct sockaddr_un address;
  size_t length;
  int error;
  elastic->fd = -1;
  elastic->frame = NULL;
  elastic->bytes = 0;
  if (name == NULL || name[0] != '@') return ENOENT;
  length = strlen(name);
  if (length > sizeof address.sun_path) return ENAMETOOLONG;
  memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, name + 1, length - 1);
  elastic->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (elastic->fd < 0) return errno;
  setsockopt(elastic->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(elastic->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  error = connect(elastic->fd, (const struct sockaddr*)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) == 0
              ? 0
              : errno;
  if (error == 0) error = ddprun_elastic_send_(elastic->fd, kHello, sizeof kHello - 1);
  if (error == 0) error = ddprun_elastic_read_(elastic);
  if (error == 0 && strstr(elastic->frame, "\"elastic\"") == NULL) error = EPROTO;
  if (error == 0) error = ddprun_elastic_send_(elastic->fd, kJoin, sizeof kJoin);
  if (error == 0) error = ddprun_elastic_read_(elastic);
  if (error == 0) {
    message = ddprun_elastic_value(elastic, "message");
    if (message == NULL || strcmp(message, "joined") != 0) error = EPERM;
  }
  if (error != 0) {
    ddprun_elastic_close(elastic);
    return error;
  }
  setsockopt(elastic->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  setsockopt(elastic->fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  return 0;
}

/* Whether this worker is to leave its round: one of enum ddprun_interrupt, the strongest that has
 * come. A system call that does not wait. Keeps errno. */
static inline int ddprun_elastic_interrupted(const ddprun_elastic* elastic) {
  char bytes[1024];
  const int before = errno;
  int found = DDPRUN_INTERRUPT_NONE;
  size_t at = 0;
  ssize_t count;
  if (elastic->fd < 0) return DDPRUN_INTERRUPT_NONE;
  count = recv(elastic->fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
  errno = before;
  while (count > 0 && at + 4 <= (size_t)count) {
    static const char kNow[] = "message=interrupt\0when=now";
    static const char kAfterStep[] = "message=interrupt\0when=step";
    const size_t length = (size_t)(unsigned char)bytes[at + 2] << 8 | (unsigned char)bytes[at + 3];
    const size_t left = (size_t)count - at - 4;
    const char* message = bytes + at + 4;
    if (left >= sizeof kNow && memcmp(message, kNow, sizeof kNow) == 0) return DDPRUN_INTERRUPT_NOW;
    if (left >= sizeof kAfterStep && memcmp(message, kAfterStep, sizeof kAfterStep) == 0)
      found = DDPRUN_INTERRUPT_AFTER_STEP;
    at += 4 + length;
  }
  return found;
}

/* Says that this worker has left its round, and waits for the next one. It uses nothing that other
 * workers use any more: no collective operation, no file that the next round writes. `step`: after
 * how many steps its state is, which another worker may get from it; NULL: it has none, for example
 * because it was interrupted while it got one. After an interruption, or unasked if it has lost
 * another rank. Returns 0: ddprun_elastic_value gives the variables of the next round (RANK,
 * WORLD_SIZE, MASTER_ADDR, ...), which take the place of those in the environment. Else an errno;
 * ECONNRESET: there is no next round for this worker, which is about to be ended. */
static inline int ddprun_elastic_next_round(ddprun_elastic* elastic, const uint64_t* step) {
  char text[64];
  const char* message;
  int length;
  int error;
  if (elastic->fd < 0) return ENOTCONN;
  length = step == NULL ? snprintf(text, sizeof text, "message=wait")
                        : snprintf(text, sizeof text, "message=wait%cstep=%llu", '\0',
                                   (unsigned long long)*step);
  error = ddprun_elastic_send_(elastic->fd, text, (size_t)length + 1);
  while (error == 0) {
    error = ddprun_elastic_read_(elastic);
    message = error == 0 ? ddprun_elastic_value(elastic, "message") : NULL;
    /* An interruption of the round that this worker has left. */
    if (message != NULL && strcmp(message, "round") == 0) return 0;
  }
  return error;
}

#ifdef __cplusplus
}
#endif

#endif
