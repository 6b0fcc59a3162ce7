#include "base/secret_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/open_file.hpp"
#include "base/printable.hpp"
#include "base/result.hpp"
#include "base/shell_word.hpp"
#include "base/trimmed.hpp"
#include "base/unique_handle.hpp"

namespace ddprun {
namespace {

using Secret = boost::system::result<std::string, std::string>;

constexpr mode_t kOfOthers = S_IRWXG | S_IRWXO;
/// A longest secret and a few ends of lines.
constexpr std::size_t kFileBytesMax = kSecretBytesMax + 64;

Secret failed(std::string why) { return {boost::system::in_place_error, std::move(why)}; }

Secret unreadable(const std::string& path, ErrorCode error) {
  return failed(fmt::format("cannot read the secret file {}: {}", path, error.message()));
}

/// Reads no more than one byte beyond the longest file that is allowed.
Secret read_own_file(const std::string& path) {
  const Result<UniqueFd> opened = open_named_file(path, O_RDONLY);
  if (opened.has_error() && opened.error() == FileErrc::not_regular)
    return failed(fmt::format("the secret file {} is not a regular file", path));
  if (!opened) return unreadable(path, opened.error());
  const UniqueFd& fd = *opened;
  struct stat file {};
  if (fstat(fd.get(), &file) != 0) return unreadable(path, last_system_error());
  if (file.st_uid != geteuid() && file.st_uid != 0) {
    return failed(
        fmt::format("the secret file {} belongs to user {}: it must belong to user {}, as which "
                    "this program runs, or to root",
                    path, file.st_uid, geteuid()));
  }
  if ((file.st_mode & kOfOthers) != 0) {
    return failed(
        fmt::format("the secret file {} has mode {:04o}, so other users have access to it: run "
                    "chmod 600 {}",
                    path, file.st_mode & 07777, shell_word(path)));
  }

  std::string text(kFileBytesMax + 1, '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t count = read(fd.get(), text.data() + length, text.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return unreadable(path, last_system_error());
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  text.resize(length);
  return Secret(boost::system::in_place_value, std::move(text));
}

}  // namespace

Secret read_secret_file(const std::string& path) {
  const auto text = read_own_file(path);
  if (!text) return text;
  // With a mark on one node only the nodes would have different secrets.
  const std::string_view secret = trimmed(without_byte_order_mark(*text));
  if (text->size() > kFileBytesMax || secret.size() > kSecretBytesMax) {
    return failed(fmt::format("the secret in {} is too long: it must have {} to {} bytes", path,
                              kSecretBytesMin, kSecretBytesMax));
  }
  if (secret.size() < kSecretBytesMin) {
    return failed(
        fmt::format("the secret in {} has {} bytes, but must have {} to {}: make one, for example "
                    "with head -c 24 /dev/urandom | base64",
                    path, secret.size(), kSecretBytesMin, kSecretBytesMax));
  }
  return Secret(boost::system::in_place_value, secret);
}

Secret read_password_file(const std::string& path) {
  const auto text = read_own_file(path);
  if (!text) return text;
  std::string_view password = without_byte_order_mark(*text);
  for (const char end : {'\n', '\r'}) {
    if (password.ends_with(end)) password.remove_suffix(1);
  }
  if (!password.empty() && password.size() <= kSecretBytesMax)
    return Secret(boost::system::in_place_value, password);
  return failed(fmt::format("the password in {} has {} bytes, but must have 1 to {}", path,
                            password.size(), kSecretBytesMax));
}

std::string default_secret_path(const std::optional<std::string>& xdg_config_home,
                                const std::optional<std::string>& home) {
  // A relative path counts as not set (XDG Base Directory Specification).
  if (xdg_config_home && xdg_config_home->starts_with('/'))
    return *xdg_config_home + "/ddprun/secret";
  return home && home->starts_with('/') ? *home + "/.config/ddprun/secret" : std::string();
}

}  // namespace ddprun
