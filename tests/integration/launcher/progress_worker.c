/* worker/ddprun_progress.h as a C program uses it. Exits with 0 where it was made to do what it
 * does without ddprun. */
#include "worker/ddprun_progress.h"

int main(int argc, char** argv) {
  ddprun_progress progress;
  uint64_t step;
  if (argc > 1 && strcmp(argv[1], "alone") == 0) {
    unsetenv("DDPRUN_PROGRESS_FILE");
    if (ddprun_progress_open(&progress) != ENOENT) return 11;
    ddprun_progress_update(&progress, 1, "no reader here");
    setenv("DDPRUN_PROGRESS_FILE", "/nowhere/page", 1);
    if (ddprun_progress_open(&progress) != ENOENT) return 12;
    ddprun_progress_update(&progress, 1, "nor this");
    ddprun_progress_close(&progress);
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "full") == 0) {
    if (ddprun_progress_open(&progress) != ENOSPC) return 16;
    ddprun_progress_update(&progress, 1, "no reader here");
    ddprun_progress_close(&progress);
    return 0;
  }
  if (sizeof(struct ddprun_progress_page) != 128) return 13;
  if (ddprun_progress_open(&progress) != 0) return 14;
  for (step = 0; step < 3; ++step) {
    ddprun_progress_update(&progress, step, NULL);
    ddprun_progress_update(&progress, step, "a phase of more than twenty-four bytes");
    if (progress.page->place != 1) return 15;
  }
  return 20;
}
