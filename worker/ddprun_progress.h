/* Lets a worker tell ddprun how far it is: one page of shared memory, described in
 * docs/progress.md. Nothing but this file is needed, in C99 (with POSIX: -std=gnu99, or
 * -D_POSIX_C_SOURCE=200809L) and in C++. Linux only.
 *
 *     ddprun_progress progress;
 *     ddprun_progress_open(&progress);
 *     for (step = 0; step < steps; ++step) {
 *       ddprun_progress_update(&progress, step, "forward");
 *       ...
 *     }
 *     ddprun_progress_close(&progress);
 *
 * One thread writes. An update is a look at the clock and a few stores: no system call. */
#ifndef DDPRUN_PROGRESS_H
#define DDPRUN_PROGRESS_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The page, as docs/progress.md has it. Native byte order: both sides run on one machine. */
struct ddprun_progress_page {
  char magic[6];    /* "ddprun", without a NUL */
  uint16_t version; /* 1 */
  uint64_t step;
  uint64_t time_ns;  /* CLOCK_MONOTONIC at this update */
  uint64_t phase[3]; /* 24 bytes of text, the rest of them 0 */
  uint32_t place;    /* number of the update within its step, from 0 */
  uint32_t flags;    /* 1: do not watch me now; 2: I save when asked */
  uint64_t stop;     /* ddprun writes it before a stop signal: enum ddprun_stop */
  uint32_t save;     /* ddprun writes it: the number of its newest request to save; 0: none */
  uint32_t saved;    /* the number of the newest request that is met */
  /* What the time of this round goes into, for ddprun's ledger. */
  uint64_t reached_step; /* the highest step of the rounds before: DDPRUN_REACHED_STEP */
  uint64_t first_step;   /* of the first update */
  uint64_t first_ns;     /* CLOCK_MONOTONIC at that; ddprun writes 0 when a round begins */
  uint64_t reached_ns;   /* at the first update with `reached_step` or a higher one; 0: not yet */
  uint64_t saving_ns;    /* how long phases took that are over, and in which it saved */
  uint64_t waiting_ns;   /* the same of those in which it waited for other workers */
  uint64_t more[1];      /* 0 */
};

/* Why ddprun sends a worker SIGTERM, or the signal that it got itself. */
enum ddprun_stop {
  DDPRUN_STOP_UNKNOWN = 0, /* not from ddprun, or there is no page */
  /* Nothing has failed: the job, or this node's part in it, was asked to end, or other nodes join.
   * There is time to save the state, at most --grace-period. */
  DDPRUN_STOP_SAVE = 1,
  /* A worker or a node has failed: end at once. A collective operation may never end, and the next
   * round waits for this worker. */
  DDPRUN_STOP_NOW = 2
};

typedef struct ddprun_progress {
  volatile struct ddprun_progress_page* page; /* NULL: there is no reader, and updates do nothing */
  uint32_t saves;                             /* 2: ddprun_progress_save_requested was called */
  uint32_t kind;                              /* of the phase: enum ddprun_phase_kind */
} ddprun_progress;

/* What a phase counts as in ddprun's report, by its name. */
enum ddprun_phase_kind {
  DDPRUN_PHASE_WORK = 0,
  DDPRUN_PHASE_SAVE = 1, /* "save...", and with "checkpoint" in it */
  DDPRUN_PHASE_WAIT = 2  /* "all-...", "barrier...", "share...", "wait...": on other workers */
};

static inline uint32_t ddprun_phase_kind_of(const char* phase) {
  if (strncmp(phase, "save", 4) == 0 || strstr(phase, "checkpoint") != NULL)
    return DDPRUN_PHASE_SAVE;
  if (strncmp(phase, "all-", 4) == 0 || strncmp(phase, "barrier", 7) == 0 ||
      strncmp(phase, "share", 5) == 0 || strncmp(phase, "wait", 4) == 0)
    return DDPRUN_PHASE_WAIT;
  return DDPRUN_PHASE_WORK;
}

/* Makes the page that the environment variable DDPRUN_PROGRESS_FILE names. Returns 0, or an errno;
 * ENOENT: there is no such variable, so no reader; ENOSPC: memory (/dev/shm) or the disk that
 * TMPDIR lies on is full. After an error updates are allowed and do nothing. ddprun judges no
 * worker before its first update. Also lets the debuggers that ddprun starts look at this process,
 * where the kernel allows that to parents only. */
static inline int ddprun_progress_open(ddprun_progress* progress) {
  const char* path = getenv("DDPRUN_PROGRESS_FILE");
  void* memory;
  int fd;
  int error = 0;
  progress->page = NULL;
  progress->saves = 0;
  progress->kind = DDPRUN_PHASE_WORK;
  if (path == NULL || path[0] == '\0') return ENOENT;
  fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  /* Not ftruncate: it takes no room, and on a full /dev/shm the first update would end in SIGBUS.
   */
  do {
    error = posix_fallocate(fd, 0, (off_t)sizeof(struct ddprun_progress_page));
  } while (error == EINTR);
  if (error != 0) {
    close(fd);
    return error;
  }
  memory =
      mmap(NULL, sizeof(struct ddprun_progress_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) error = errno;
  close(fd);
  if (error != 0) return error;
  progress->page = (volatile struct ddprun_progress_page*)memory;
  if (progress->page->version != 1 && getenv("DDPRUN_REACHED_STEP") != NULL)
    progress->page->reached_step = strtoull(getenv("DDPRUN_REACHED_STEP"), NULL, 10);
#ifdef PR_SET_PTRACER
  prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0UL, 0UL,
        0UL); /* without Yama: EINVAL, and no need for it */
#endif
  return 0;
}

/* Not for programs: books the time since the last update for ddprun's report. */
static inline void ddprun_progress_book(ddprun_progress* progress, uint64_t step, uint64_t now) {
  volatile struct ddprun_progress_page* page = progress->page;
  if (page->first_ns == 0) { /* the phase before was of another round */
    page->first_step = step;
    page->first_ns = now;
    progress->kind = DDPRUN_PHASE_WORK;
  }
  if (page->reached_ns == 0 && step >= page->reached_step) page->reached_ns = now;
  if (progress->kind == DDPRUN_PHASE_SAVE)
    page->saving_ns = page->saving_ns + now - page->time_ns;
  else if (progress->kind == DDPRUN_PHASE_WAIT)
    page->waiting_ns = page->waiting_ns + now - page->time_ns;
}

/* Says that this worker is at `step`, in `phase` (text of up to 24 bytes, may be NULL). The time in
 * some phases counts as saving or waiting: enum ddprun_phase_kind. */
static inline void ddprun_progress_update(ddprun_progress* progress, uint64_t step,
                                          const char* phase) {
  volatile struct ddprun_progress_page* page = progress->page;
  struct timespec now;
  uint64_t now_ns;
  union {
    char text[24];
    uint64_t words[3];
  } name = {{0}};
  size_t i;
  if (page == NULL) return;
  for (i = 0; phase != NULL && i < sizeof name.text && phase[i] != '\0'; ++i)
    name.text[i] = phase[i];
  clock_gettime(CLOCK_MONOTONIC, &now);
  page->place = page->version == 1 && page->step == step ? page->place + 1 : 0;
  page->step = step;
  for (i = 0; i < 3; ++i) page->phase[i] = name.words[i];
  page->flags = progress->saves;
  now_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
  ddprun_progress_book(progress, step, now_ns);
  progress->kind = ddprun_phase_kind_of(phase != NULL ? phase : "");
  page->time_ns = now_ns;
  if (page->version == 1) return;
  for (i = 0; i < sizeof page->magic; ++i) page->magic[i] = "ddprun"[i];
  page->version = 1;
}

/* Why ddprun has sent a stop signal, one of enum ddprun_stop. Reads the page of this process, made
 * by ddprun_progress_open: after ddprun_progress_close, too. For any thread, and for handlers of
 * signals as long as no thread changes the environment. Keeps errno. */
static inline uint64_t ddprun_progress_stop(void) {
  const char* path = getenv("DDPRUN_PROGRESS_FILE");
  const int before = errno;
  uint64_t stop = DDPRUN_STOP_UNKNOWN;
  int fd;
  if (path == NULL || path[0] == '\0') return DDPRUN_STOP_UNKNOWN;
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    if (pread(fd, &stop, sizeof stop, (off_t)offsetof(struct ddprun_progress_page, stop)) !=
        (ssize_t)sizeof stop)
      stop = DDPRUN_STOP_UNKNOWN;
    close(fd);
  }
  errno = before;
  return stop;
}

/* Whether ddprun asks for a checkpoint now, after which the program goes on (`ddpctl save`): the
 * number of the request, until it is met; 0: no. For every step: it reads the page and makes no
 * system call. From the first call on, and the first ddprun_progress_update, ddprun counts on this
 * worker. */
static inline uint32_t ddprun_progress_save_requested(ddprun_progress* progress) {
  volatile struct ddprun_progress_page* page = progress->page;
  uint32_t number;
  if (page == NULL) return 0;
  progress->saves = 2;
  page->flags = page->flags | 2U;
  number = page->save;
  return number == page->saved ? 0 : number;
}

/* The checkpoint is on disk that was begun after the request of this number was seen. */
static inline void ddprun_progress_saved(ddprun_progress* progress, uint32_t number) {
  if (progress->page != NULL) progress->page->saved = number;
}

/* From here on this worker is not watched any more, nor counted on to save; its step stays known.
 * For the end, and for what may take any time. The next ddprun_progress_update after a new
 * ddprun_progress_open lets it be watched again. */
static inline void ddprun_progress_close(ddprun_progress* progress) {
  if (progress->page == NULL) return;
  progress->page->flags = 1;
  munmap((void*)progress->page, sizeof(struct ddprun_progress_page));
  progress->page = NULL;
}

#ifdef __cplusplus
}
#endif

#endif
