// The secret that the agents of a job and their rendezvous share, read from a file.
#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <optional>
#include <string>

namespace ddprun {

inline constexpr std::size_t kSecretBytesMin = 16;
inline constexpr std::size_t kSecretBytesMax = 4096;

/// The secret in the file, without blanks and ends of lines around it. Only a regular file that
/// belongs to our user or root, and that no other user may read or change, is taken. The error is a
/// whole sentence: the file, the reason and the remedy; it never shows the secret. Never waits for
/// a writer.
boost::system::result<std::string, std::string> read_secret_file(const std::string& path);

/// The password in the file, which another program has chosen: from 1 byte on, and only the end of
/// the last line is left out. The file's owner and mode are checked as read_secret_file does.
boost::system::result<std::string, std::string> read_password_file(const std::string& path);

/// Where the secret lies if no option or variable tells: `ddprun/secret` in the user's folder for
/// settings. The values of XDG_CONFIG_HOME and HOME; none: not set. Empty: there is no such folder.
/// Pure.
std::string default_secret_path(const std::optional<std::string>& xdg_config_home,
                                const std::optional<std::string>& home);

}  // namespace ddprun
