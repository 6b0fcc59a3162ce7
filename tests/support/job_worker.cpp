// A worker for tests: each argument is an action, done in order. Prints whole lines.
//
//   print TEXT        a line on stdout          print-err TEXT   a line on stderr
//   env NAME          NAME=VALUE on stdout      fds              the open descriptors, on one line
//   signals           print and go on at SIGINT, SIGTERM, SIGHUP, SIGCONT
//   ignore-term       ignore SIGTERM            daemon           leave a double-forked process of
//   its own session behind,
//                                                                which ignores SIGTERM and sleeps
//   sleep SECONDS     (decimals; goes on after signals)          exit CODE
//   vfork             waits in the kernel (state D) for a child that sleeps
//   kill SIGNAL       itself                    stdin            copy stdin to stdout
//   rank N            do the rest only as this RANK              round N    ... only in this
//   DDPRUN_ROUND flood BYTES       lines of 100 bytes on stdout
//   progress STEP PHASE            writes its progress page
//   saves            writes it, waits for a request to save and meets it; prints `saves`, `saved`
//   never-saves      says in it that it saves when asked, and does not
//   traced SECONDS    is traced by a child of its own for so long; exit 77 where that may not be
//   held SECONDS      the same, and the child lives on if the worker dies
//   page TEXT         makes TEXT its page           close-page   asks not to be watched any more
//   numbered BYTES    the same with RANK and a number first, in large writes; exit code 9 if one
//                     fails
//   long BYTES        a line of so many bytes on stdout          odd      bytes that are no text
//   close FD
#include <dirent.h>
#include <fcntl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "worker/ddprun_progress.h"

namespace {

void say(int fd, const std::string& text) {
  const std::string line = text + "\n";
  [[maybe_unused]] const auto written = write(fd, line.data(), line.size());
}

extern "C" void on_signal(int number) {
  char line[64];
  const int n = std::snprintf(line, sizeof line, "got signal %d\n", number);
  [[maybe_unused]] const auto written = write(1, line, static_cast<std::size_t>(n));
}

void sleep_for(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    const double left =
        std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left > 0) usleep(static_cast<useconds_t>(std::min(left, 0.5) * 1e6) + 1);
  }
}

void leave_daemon() {
  if (fork() != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  sleep_for(120);
  _exit(0);
}

/// Only SIGKILL ends its wait.
void wait_in_the_kernel() {
  if (vfork() != 0) return;
  while (true) pause();
}

std::string descriptors() {
  std::string text = "fds";
  DIR* directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] == '.' || std::atoi(entry->d_name) == dirfd(directory)) continue;
    text += std::string(" ") + entry->d_name;
  }
  closedir(directory);
  return text;
}

ddprun_progress& progress_page() {
  static ddprun_progress progress{};
  if (progress.page == nullptr && ddprun_progress_open(&progress) != 0) {
    say(2, "job_worker: no progress page");
    _exit(2);
  }
  return progress;
}

void be_traced(double seconds, bool beyond_death) {
  int ready[2];
  if (pipe(ready) != 0) _exit(2);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0UL, 0UL, 0UL);
  if (fork() == 0) {
    if (!beyond_death) prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char works = ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr) == 0 ? 'y' : 'n';
    [[maybe_unused]] const auto written = write(ready[1], &works, 1);
    sleep_for(seconds);
    _exit(0);  // and it is let go: before its own end, of which its parent would not hear
  }
  char works = 'n';
  if (read(ready[0], &works, 1) != 1 || works != 'y') _exit(77);
}

void write_page(const std::string& text) {
  const int fd = open(std::getenv("DDPRUN_PROGRESS_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(2);
  close(fd);
}

bool is(const char* name, const char* value) {
  const char* actual = std::getenv(name);
  return actual != nullptr && std::strcmp(actual, value) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string action = argv[i];
    const auto next = [&]() -> std::string { return ++i < argc ? argv[i] : ""; };
    if (action == "print") {
      say(1, next());
    } else if (action == "print-err") {
      say(2, next());
    } else if (action == "env") {
      const std::string name = next();
      const char* value = std::getenv(name.c_str());
      say(1, value != nullptr ? name + "=" + value : name + " unset");
    } else if (action == "fds") {
      say(1, descriptors());
    } else if (action == "signals") {
      for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) {
        struct sigaction old {};
        sigaction(number, nullptr, &old);
        if (old.sa_handler != SIG_IGN) std::signal(number, on_signal);
      }
    } else if (action == "ignore-term") {
      std::signal(SIGTERM, SIG_IGN);
    } else if (action == "daemon") {
      leave_daemon();
    } else if (action == "vfork") {
      wait_in_the_kernel();
    } else if (action == "sleep") {
      sleep_for(std::atof(next().c_str()));
    } else if (action == "exit") {
      return std::atoi(next().c_str());
    } else if (action == "kill") {
      raise(std::atoi(next().c_str()));
    } else if (action == "stdin") {
      char buffer[4096];
      ssize_t n = 0;
      while ((n = read(0, buffer, sizeof buffer)) > 0) {
        [[maybe_unused]] const auto written = write(1, buffer, static_cast<std::size_t>(n));
      }
    } else if (action == "rank") {
      if (!is("RANK", next().c_str())) return 0;
    } else if (action == "round") {
      if (!is("DDPRUN_ROUND", next().c_str())) return 0;
    } else if (action == "progress") {
      const std::string step = next();
      ddprun_progress_update(&progress_page(), std::strtoull(step.c_str(), nullptr, 10),
                             next().c_str());
    } else if (action == "saves" || action == "never-saves") {
      ddprun_progress& page = progress_page();
      ddprun_progress_update(&page, 5, "");
      std::uint32_t request = ddprun_progress_save_requested(&page);
      say(1, action);
      if (action == "saves") {
        while ((request = ddprun_progress_save_requested(&page)) == 0) usleep(1000);
        ddprun_progress_saved(&page, request);
        say(1, "saved");
      }
    } else if (action == "traced" || action == "held") {
      be_traced(std::atof(next().c_str()), action == "held");
    } else if (action == "page") {
      write_page(next());
    } else if (action == "close-page") {
      ddprun_progress_close(&progress_page());
    } else if (action == "flood") {
      const long lines = std::atol(next().c_str()) / 100;
      const std::string text(99, 'x');
      for (long line = 0; line < lines; ++line) say(1, text);
    } else if (action == "numbered") {
      const long lines = std::atol(next().c_str()) / 100;
      std::string text;
      for (long line = 0; line < lines; ++line) {
        char head[64];
        std::snprintf(head, sizeof head, "%s %08ld ", std::getenv("RANK"), line);
        text += head + std::string(99 - std::strlen(head), 'x') + "\n";
        if (text.size() < 60'000 && line + 1 < lines) continue;
        if (write(1, text.data(), text.size()) != static_cast<ssize_t>(text.size())) return 9;
        text.clear();
      }
    } else if (action == "long") {
      say(1, std::string(static_cast<std::size_t>(std::atol(next().c_str())), 'y'));
    } else if (action == "odd") {
      say(1, std::string("a\0b\xff\xc3(\x01\xed\xa0\x80", 10));
    } else if (action == "close") {
      close(std::atoi(next().c_str()));
    } else {
      say(2, "job_worker: unknown action " + action);
      return 2;
    }
  }
  return 0;
}
