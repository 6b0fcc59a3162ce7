#include "machine/devices/gpu_claims.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/describe.hpp"
#include "base/printable.hpp"
#include "base/result.hpp"
#include "base/small_file.hpp"
#include "base/trimmed.hpp"

namespace ddprun::machine {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What the driver keeps on a GPU that nothing uses is less, and any program's context there more.
constexpr std::uint64_t kIdleBytesMax = 64ULL << 20U;

constexpr std::string_view kClaimName = "ddprun-gpu/";
constexpr std::string_view kChoosingName = "ddprun-gpus";
constexpr auto kChoosingLimit = 10s;
constexpr auto kChoosingLook = 100ms;
constexpr auto kLookEvery = 50ms;
constexpr auto kSayAfter = 1s;

/// A socket's name that is in no folder: no one has to make it or may remove it, and it ends with
/// its socket.
struct AbstractName {
  explicit AbstractName(std::string_view name) {
    address.sun_family = AF_UNIX;
    const std::size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
    std::memcpy(address.sun_path + 1, name.data(), bytes);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t length = 0;
};

UniqueFd unix_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Takes the name, so that no other process has it. Errors: EADDRINUSE where one has it, and those
/// of sockets.
Result<UniqueFd> take_name(std::string_view name) {
  const AbstractName address(name);
  UniqueFd socket = unix_socket();
  // Others connect to it to learn of us.
  if (!socket || ::bind(socket.get(), address.get(), address.length) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return last_system_error();
  }
  return socket;
}

/// To the process that has the name. Empty: none has, or too many ask.
UniqueFd connect_to(std::string_view name) {
  const AbstractName address(name);
  UniqueFd socket = unix_socket();
  if (!socket || ::connect(socket.get(), address.get(), address.length) != 0) return {};
  return socket;
}

std::string describe_process(pid_t pid, std::optional<uid_t> uid) {
  const std::string folder = fmt::format("/proc/{}", pid);
  const auto name = read_small_file(folder + "/comm");
  struct stat status {};
  if (!uid && ::stat(folder.c_str(), &status) == 0) uid = status.st_uid;
  std::string text = fmt::format("pid {}", pid);
  std::string facts = name ? printable(trimmed(*name)) : "";
  if (uid) facts += fmt::format("{}uid {}", facts.empty() ? "" : ", ", *uid);
  return facts.empty() ? text : fmt::format("{} ({})", text, facts);
}

std::string describe_holder(std::string_view name) {
  const UniqueFd holder = connect_to(name);
  ucred peer{};
  socklen_t length = sizeof peer;
  const bool known =
      holder && ::getsockopt(holder.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
  // It is 0 where the process is in another pid namespace.
  return known && peer.pid > 0 ? describe_process(peer.pid, peer.uid) : "another process";
}

/// Waits until the other that chooses has done so. Empty: it takes too long, or there are no
/// sockets.
UniqueFd begin_to_choose(std::string& problem) {
  const auto end = Clock::now() + kChoosingLimit;
  while (true) {
    auto choosing = take_name(kChoosingName);
    if (choosing) return std::move(*choosing);
    if (choosing.error().value() != EADDRINUSE) {
      problem = "GPUs cannot be claimed: " + choosing.error().message();
      return {};
    }
    if (Clock::now() >= end) break;
    const UniqueFd other = connect_to(kChoosingName);
    pollfd ended{other ? other.get() : -1, 0, 0};  // POLLHUP, when its socket is closed
    ::poll(&ended, 1, static_cast<int>(std::chrono::milliseconds(kChoosingLook).count()));
  }
  problem = fmt::format("GPUs cannot be claimed: {} has been choosing for {}",
                        describe_holder(kChoosingName), describe(kChoosingLimit));
  return {};
}

}  // namespace

std::string why_not_free(const GpuUse& use) {
  if (!use.problem.empty()) return use.problem;
  std::string text;
  for (const GpuProcess& process : use.processes) {
    text += fmt::format("{}{} uses {}", text.empty() ? "" : ", ",
                        describe_process(process.pid, std::nullopt),
                        process.bytes == 0 ? "it" : describe_bytes(process.bytes));
  }
  if (text.empty() && use.used_bytes.value_or(0) > kIdleBytesMax) {
    text = fmt::format("a process that cannot be seen from here uses {}",
                       describe_bytes(*use.used_bytes));
  }
  return text;
}

LookAtGpu look_by_nvml() {
  return [nvml = Nvml::open(GpuPlaces{}.nvml)](const std::string& uuid) {
    return nvml ? why_not_free(nvml->use_of(uuid)) : "NVML: " + nvml.error();
  };
}

GpuClaims claim_free_gpus(std::vector<GpuCandidate> candidates, std::size_t wanted,
                          const LookAtGpu& why_not_free) {
  GpuClaims claims;
  const UniqueFd choosing = begin_to_choose(claims.problem);
  if (!choosing) return claims;
  const bool all = wanted == 0;
  for (GpuCandidate& gpu : candidates) {
    if (!all && claims.claimed.size() == wanted) break;
    const std::string name = std::string(kClaimName) + gpu.uuid;
    auto held = take_name(name);
    std::string why;
    if (held) {
      why = why_not_free(gpu.uuid);
    } else if (held.error().value() == EADDRINUSE) {
      why = "claimed by " + describe_holder(name);
    } else {
      why = "cannot be claimed: " + held.error().message();
    }
    if (why.empty()) {
      claims.claimed.push_back({std::move(gpu), std::move(*held)});
    } else {
      claims.busy.push_back({std::move(gpu.entry), std::move(why)});
    }
  }
  if (claims.claimed.size() < wanted) claims.claimed.clear();
  return claims;
}

bool await_free_gpus(const std::vector<GpuCandidate>& gpus, std::chrono::milliseconds limit,
                     const LookAtGpu& why_not_free,
                     const std::function<void(const std::string& line)>& say) {
  const std::string seconds = fmt::format("{} s", std::chrono::duration<double>(limit).count());
  const auto begin = Clock::now();
  bool said = false;
  while (true) {
    std::string busy;
    for (const GpuCandidate& gpu : gpus) {
      const std::string why = why_not_free(gpu.uuid);
      if (why.empty()) continue;
      busy += fmt::format("{}GPU {}: {}", busy.empty() ? "" : "; ", gpu.entry, why);
    }
    if (busy.empty()) return true;
    const auto waited = Clock::now() - begin;
    if (waited >= limit) {
      say(fmt::format("the workers start although GPUs are still in use after {}: {}", seconds,
                      busy));
      return false;
    }
    if (!said && waited >= kSayAfter) {
      say(fmt::format("waiting at most {} for GPUs that are in use: {}", seconds, busy));
      said = true;
    }
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace ddprun::machine
