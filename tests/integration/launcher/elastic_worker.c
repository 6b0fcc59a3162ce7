/* A worker that goes on in another round, by worker/ddprun_elastic.h. It counts steps, each of
 * which takes 5 ms; its state is the count, of which it prints each tenth. Arguments: a folder by
 * which ranks hand the state over, the last step, and pairs of WHAT RANK, for the first process of
 * that rank only:
 *
 *   deaf RANK      never leaves its round
 *   closes RANK    ends its connection and does not answer
 *   child RANK     has a child process that runs on
 *   detached RANK  has one in a session of its own
 *   lonely RANK    leaves its round unasked after 40 steps
 *   stranger RANK  tries to join again, from a process of another session and from its own
 *   complains RANK writes a traceback when it leaves its round
 *   raises RANK    in its second round it writes an exception's line and fails */
#include "worker/ddprun_elastic.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

static ddprun_elastic elastic;
static const char* folder;

static const char* variable(const char* name) {
  const char* value = ddprun_elastic_value(&elastic, name);
  if (value == NULL) value = getenv(name);
  return value != NULL ? value : "";
}

static void pause_ms(long ms) {
  struct timespec time;
  time.tv_sec = 0;
  time.tv_nsec = ms * 1000000L;
  nanosleep(&time, NULL);
}

/* The file of the source's state in this round. */
static void state_file(char* path, size_t bytes) {
  snprintf(path, bytes, "%s/round%s", folder, variable("DDPRUN_ROUND"));
}

static void give(uint64_t step) {
  char path[512];
  char temporary[520];
  FILE* file;
  state_file(path, sizeof path);
  snprintf(temporary, sizeof temporary, "%s.new", path);
  file = fopen(temporary, "w");
  if (file == NULL) exit(20);
  fprintf(file, "%llu", (unsigned long long)step);
  fclose(file);
  rename(temporary, path);
}

/* False: this worker was interrupted meanwhile. */
static int take(uint64_t* step) {
  char path[512];
  unsigned long long found = 0;
  FILE* file;
  state_file(path, sizeof path);
  while ((file = fopen(path, "r")) == NULL) {
    if (ddprun_elastic_interrupted(&elastic)) return 0;
    pause_ms(1);
  }
  if (fscanf(file, "%llu", &found) != 1) exit(21);
  fclose(file);
  *step = found;
  return 1;
}

/* All of the round have their state; `step` is ours or becomes it. False: interrupted before. */
static int get_state(uint64_t* step) {
  const char* source = variable("DDPRUN_SOURCE_RANK");
  if (source[0] == '\0') return 1;
  if (strcmp(source, variable("RANK")) == 0) {
    give(*step);
    return 1;
  }
  return take(step);
}

static void say(const char* what, uint64_t step) {
  printf("%s rank=%s world=%s round=%s restarts=%s source=%s pid=%ld step=%llu\n", what,
         variable("RANK"), variable("WORLD_SIZE"), variable("DDPRUN_ROUND"),
         variable("TORCHELASTIC_RESTART_COUNT"), variable("DDPRUN_SOURCE_RANK"), (long)getpid(),
         (unsigned long long)step);
  fflush(stdout);
}

static int is_asked_to(int argc, char** argv, const char* what) {
  int i;
  if (variable("DDPRUN_SOURCE_RANK")[0] != '\0') return 0;
  for (i = 3; i + 1 < argc; i += 2)
    if (strcmp(argv[i], what) == 0 && strcmp(argv[i + 1], variable("RANK")) == 0) return 1;
  return 0;
}

int main(int argc, char** argv) {
  uint64_t step = 0;
  uint64_t last;
  int has_state;
  int deaf;
  int closes;
  int lonely;
  int raises;
  int complains;
  int detached;
  int rounds = 0;
  if (argc < 3) return 22;
  folder = argv[1];
  last = strtoull(argv[2], NULL, 10);
  if (ddprun_elastic_open(&elastic) != 0) return 23;
  deaf = is_asked_to(argc, argv, "deaf");
  closes = is_asked_to(argc, argv, "closes");
  lonely = is_asked_to(argc, argv, "lonely");
  raises = is_asked_to(argc, argv, "raises");
  complains = is_asked_to(argc, argv, "complains");
  if (is_asked_to(argc, argv, "stranger")) {
    ddprun_elastic other;
    const pid_t child = fork();
    int status = 1;
    if (child == 0) {
      setsid();
      _exit(ddprun_elastic_open(&other) == EPERM ? 0 : 1);
    }
    waitpid(child, &status, 0);
    printf("another session: %s\n", status == 0 ? "refused" : "joins");
    printf("joins twice: %s\n", strerror(ddprun_elastic_open(&other)));
  }
  detached = is_asked_to(argc, argv, "detached");
  if ((detached || is_asked_to(argc, argv, "child")) && fork() == 0) {
    ddprun_elastic_close(&elastic);
    if (detached) setsid();
    for (;;) pause_ms(100);
  }
  say("starts", step);
  has_state = get_state(&step);
  for (;;) {
    int interrupted = ddprun_elastic_interrupted(&elastic);
    if (deaf) interrupted = 0;
    if (has_state && lonely && step == 40) interrupted = DDPRUN_INTERRUPT_NOW;
    if (interrupted && closes) {
      ddprun_elastic_close(&elastic);
      for (;;) pause_ms(100);
    }
    if (interrupted || !has_state) {
      lonely = 0;
      if (complains)
        fprintf(stderr, "Traceback (most recent call last):\n  File \"x.py\", line 1\nLeft: now\n");
      printf("leaves when=%s pid=%ld\n", interrupted == DDPRUN_INTERRUPT_NOW ? "now" : "step",
             (long)getpid());
      fflush(stdout);
      if (ddprun_elastic_next_round(&elastic, has_state ? &step : NULL) != 0) return 24;
      say("goes on", step);
      if (raises && ++rounds == 1) {
        fprintf(stderr, "ValueError: bad lr\n");
        return 1;
      }
      has_state = get_state(&step);
      continue;
    }
    if (step == last) break;
    pause_ms(5);
    ++step;
    if (step % 10 == 0) say("has done", step);
  }
  say("ends", step);
  ddprun_elastic_close(&elastic);
  return 0;
}
