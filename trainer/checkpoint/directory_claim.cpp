#include "trainer/checkpoint/directory_claim.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "base/file_lock.hpp"
#include "base/open_file.hpp"
#include "trainer/checkpoint/durable_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::chrono_literals;

std::string holder_text(const UniqueFd& fd) {
  struct stat status {};
  std::ifstream file("/proc/locks");
  const std::string locks{std::istreambuf_iterator<char>(file), {}};
  std::optional<pid_t> holder;
  if (::fstat(fd.get(), &status) == 0) holder = holder_of_lock(locks, status.st_dev, status.st_ino);
  return holder ? fmt::format("train with process id {}", *holder) : "another train";
}

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kFile = ".claim";
/// Locked by the process that claimed last, and by older ones that have not ended yet.
constexpr const char* kAliveFile = ".claim_alive";
constexpr auto kLockWait = 10s;
constexpr std::size_t kBytesMax = 4096;

[[noreturn]] void throw_errno(const fs::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

/// Some file systems have no locks: there the claim alone has to do.
void lock(const UniqueFd& fd, const fs::path& path) {
  if (!lock_until(fd, std::chrono::steady_clock::now() + kLockWait))
    throw DataError(fmt::format("{}: another process has held its lock for {} s", path.string(),
                                std::chrono::seconds(kLockWait).count()));
}

std::string new_token() {
  std::uint64_t words[2] = {};
  if (::getrandom(words, sizeof words, 0) != static_cast<ssize_t>(sizeof words))
    throw_errno("getrandom");
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

struct Claimed {
  DirectoryClaim::Round round;
  std::string token;
};

/// None: nothing that can be read, as after a crash in the middle of the write.
std::optional<Claimed> read_claim(const UniqueFd& fd) {
  std::string text(kBytesMax, '\0');
  const ssize_t size = ::pread(fd.get(), text.data(), text.size(), 0);
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  try {
    return Claimed{{json.at("run"), json.at("epoch"), json.at("round")}, json.at("token")};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

/// Epochs rise where the rendezvous has lost its memory; rounds count from 0 in each.
bool is_later(const DirectoryClaim::Round& one, const DirectoryClaim::Round& other) {
  return one.run_id == other.run_id &&
         std::tie(one.epoch, one.number) > std::tie(other.epoch, other.number);
}

/// The epoch is named only where it tells the two apart.
std::string to_string(const DirectoryClaim::Round& round, const DirectoryClaim::Round& beside) {
  return round.epoch == beside.epoch
             ? fmt::format("round {}", round.number)
             : fmt::format("round {} of epoch {}", round.number, round.epoch);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory, std::chrono::milliseconds wait)
    : fd_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!fd_ || lock_until(fd_, std::chrono::steady_clock::now() + wait)) return;
  throw DataError(fmt::format(
      "{}: {} writes there: wait until it has ended, or name another directory by --out",
      directory.string(), holder_text(fd_)));
}

bool lock_until(const UniqueFd& fd, std::chrono::steady_clock::time_point deadline) {
  while (try_lock(fd) == LockOutcome::busy) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

std::optional<pid_t> holder_of_lock(std::string_view locks, dev_t device, std::uint64_t inode) {
  const std::string file = fmt::format("{:02x}:{:02x}:{}", major(device), minor(device), inode);
  std::istringstream lines{std::string(locks)};
  // "12: FLOCK  ADVISORY  WRITE 4711 08:01:131073 0 EOF"; one that waits has an arrow behind the
  // number.
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access, place;
    pid_t process = 0;
    if (words >> number >> kind >> mode >> access >> process >> place && kind == "FLOCK" &&
        place == file && process > 0)
      return process;
  }
  return std::nullopt;
}

DirectoryClaim::DirectoryClaim(const fs::path& directory, Round round)
    : path_(directory / kFile), round_(std::move(round)), token_(new_token()) {
  fs::create_directories(directory);
  const UniqueFd fd = open_in_output(path_, O_RDWR | O_CREAT);
  lock(fd, path_);
  alive_ = open_in_output(directory / kAliveFile, O_RDWR | O_CREAT);
  const auto claimed = read_claim(fd);
  if (claimed && is_later(claimed->round, round_) && try_lock(alive_) == LockOutcome::busy) {
    throw DataError(fmt::format(
        "{} belongs to {} of this job, which still runs; this is {}, which is over",
        directory.string(), to_string(claimed->round, round_), to_string(round_, claimed->round)));
  }
  static_cast<void>(try_lock(alive_, LockKind::shared));  // not on all file systems
  const nlohmann::json json = {
      {"run", round_.run_id}, {"epoch", round_.epoch}, {"round", round_.number}, {"token", token_}};
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (::ftruncate(fd.get(), 0) != 0) throw_errno(path_);
  const ssize_t written = ::pwrite(fd.get(), text.data(), text.size(), 0);
  if (written >= 0 && static_cast<std::size_t>(written) < text.size()) errno = ENOSPC;
  if (written != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0) throw_errno(path_);
}

UniqueFd DirectoryClaim::hold() const {
  Result<UniqueFd> opened = open_own_file(path_, O_RDWR);
  // A person has emptied the directory.
  if (opened.has_error() && opened.error() == boost::system::errc::no_such_file_or_directory)
    return {};
  if (!opened) throw std::system_error(opened.error(), path_.string());
  UniqueFd fd = std::move(*opened);
  lock(fd, path_);
  const auto claimed = read_claim(fd);
  if (claimed && claimed->token == token_) return fd;
  if (claimed && claimed->round.run_id != round_.run_id) return fd;
  const Round& theirs = claimed ? claimed->round : round_;
  throw DataError(
      fmt::format("{} belongs to {}; this is {}, which is over", path_.parent_path().string(),
                  claimed ? to_string(theirs, round_) + " of this job" : "a later round",
                  to_string(round_, theirs)));
}

}  // namespace ddprun::trainer
