#include "launcher/ssh/launch_from_here.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/time_stamp.hpp"
#include "base/unique_handle.hpp"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kHostfileBytesMax = 16 * 1024 * 1024;

/// As hexadecimal digits.
std::string random_digits(std::size_t count) {
  std::array<unsigned char, 32> bytes{};
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
  }
  std::string digits;
  for (std::size_t i = 0; i < count && i < bytes.size(); ++i)
    digits += fmt::format("{:02x}", bytes[i]);
  return digits;
}

boost::system::result<std::string, std::string> read_hostfile(const std::string& path) {
  using Read = boost::system::result<std::string, std::string>;
  const auto fail = [](std::string why) -> Read {
    return {boost::system::in_place_error, std::move(why)};
  };
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail(std::strerror(errno));
  std::string text;
  std::array<char, 64 * 1024> buffer;
  while (true) {
    const ssize_t count = read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(std::strerror(errno));
    if (count == 0) return {boost::system::in_place_value, std::move(text)};
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kHostfileBytesMax) return fail("it is too long for a list of hosts");
  }
}

std::string own_path() {
  std::error_code failed;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : path.string();
}

}  // namespace

LaunchResult<SshLaunch> launch_from_here(const LaunchOptions& options,
                                         const Environment& environment,
                                         std::vector<std::string> command, std::string folder) {
  SshFacts facts;
  facts.command = std::move(command);
  facts.folder = std::move(folder);
  facts.own_path = own_path();
  facts.random = random_digits(16);
  facts.secret = random_digits(32);
  facts.new_run_id = time_stamp(std::chrono::system_clock::now()) + "_" + random_digits(4);
  facts.stdout_is_terminal = isatty(STDOUT_FILENO) == 1;
  facts.stderr_is_terminal = isatty(STDERR_FILENO) == 1;
  facts.read_file = read_hostfile;
  return make_ssh_launch(options, environment, facts);
}

}  // namespace ddprun::launcher
