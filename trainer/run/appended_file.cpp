#include "trainer/run/appended_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

namespace ddprun::trainer {

AppendedFile::AppendedFile(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code no_folder;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), no_folder);
  fd_ = UniqueFd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (fd_) return;
  // Of a folder that could not be made open() knows only that it is missing.
  if (no_folder) throw std::system_error(no_folder, path_);
  throw std::system_error(errno, std::generic_category(), path_);
}

void AppendedFile::append(const std::string& piece) {
  std::string_view rest = piece;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_.get(), rest.data(), rest.size());
    if (written > 0) {
      // Less than all: only the next write tells why.
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      const int error = written == 0 ? EIO : errno;
      // The next piece, of this start or a later one, would begin within this one.
      const auto left = static_cast<off_t>(piece.size() - rest.size());
      const off_t end = left > 0 ? ::lseek(fd_.get(), 0, SEEK_END) : 0;
      const bool is_cut = left == 0 || (end >= left && ::ftruncate(fd_.get(), end - left) == 0);
      throw std::system_error(error, std::generic_category(),
                              is_cut ? path_ : path_ + " (its end is incomplete)");
    }
  }
}

bool ends_within_line(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  char last = '\n';
  return file.seekg(-1, std::ios::end).get(last) && last != '\n';
}

}  // namespace ddprun::trainer
