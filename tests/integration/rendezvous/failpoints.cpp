// Failpoints of rdzvd: this file stands in front of the system calls by which the journal and the
// service touch the world, and is linked into rdzvd_failing only. DDPRUN_FAILPOINT=NAME:N kills the
// process, as SIGKILL does, when it is at that point for the Nth time:
//
//   before_write    records are appended, and nothing of them is in the file
//   torn_write      the half of a write is in the file
//   before_sync     they are in the file, and not yet durable
//   after_sync      they are durable, and no agent has been told
//   telling         one agent has been told what became durable, and the next one has not
//   before_forget   a job is over, and its file is there
//   after_forget    its file is gone
//   before_rename   a file, such as the clock, is written, and does not have its name
//   after_rename    it has it, and the folder is not synced
//
// and for the file that a snapshot is written to, which is to take the journal's place, the same
// with "new_": new_before_write, new_torn_write, new_before_sync, new_after_sync, new_before_rename
// and new_after_rename.
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

struct Failpoint {
  Failpoint() {
    const char* const given = std::getenv("DDPRUN_FAILPOINT");
    const std::string_view text = given != nullptr ? given : "";
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return;
    name = text.substr(0, colon);
    left = std::atoi(given + colon + 1);
  }
  std::string name;
  std::atomic<int> left{0};
};

Failpoint& failpoint() {
  static Failpoint chosen;
  return chosen;
}

/// Whether the process is to die here.
bool is_due(std::string_view name) { return failpoint().name == name && --failpoint().left == 0; }

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}

void die_at(std::string_view name) {
  if (is_due(name)) die();
}

/// The function that this one stands in front of.
template <class Function>
Function* real(const char* name, Function*) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_new(std::string_view name) { return name.ends_with(".journal.new"); }

/// What the points of this file are called; null: it is no journal.
const char* points_of(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(link.c_str(), path, sizeof path);
  const std::string_view name(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  if (is_new(name)) return "new_";
  return name.ends_with(".journal") ? "" : nullptr;
}

std::atomic<int> told{0};  // messages since something became durable

}  // namespace

extern "C" {

ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  static auto* const next = real("pwrite", &pwrite);
  const char* const points = points_of(fd);
  if (points == nullptr) return next(fd, bytes, count, at);
  die_at(std::string(points) + "before_write");
  if (is_due(std::string(points) + "torn_write")) {
    static_cast<void>(next(fd, bytes, count / 2, at));
    die();
  }
  return next(fd, bytes, count, at);
}

int fdatasync(int fd) {
  static auto* const next = real("fdatasync", &fdatasync);
  const char* const points = points_of(fd);
  if (points == nullptr) return next(fd);
  die_at(std::string(points) + "before_sync");
  const int result = next(fd);
  die_at(std::string(points) + "after_sync");
  told = 0;
  return result;
}

ssize_t send(int fd, const void* bytes, size_t count, int flags) {
  static auto* const next = real("send", &send);
  if (told++ == 1) die_at("telling");
  return next(fd, bytes, count, flags);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static auto* const next = real("unlinkat", &unlinkat);
  die_at("before_forget");
  const int result = next(folder, name, flags);
  die_at("after_forget");
  return result;
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static auto* const next = real("renameat", &renameat);
  const std::string points = is_new(from) ? "new_" : "";
  die_at(points + "before_rename");
  const int result = next(from_folder, from, to_folder, to);
  die_at(points + "after_rename");
  return result;
}

}  // extern "C"
