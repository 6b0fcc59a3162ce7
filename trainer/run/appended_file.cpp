#include "trainer/run/appended_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/open_file.hpp"

namespace ddprun::trainer {

AppendedFile::AppendedFile(const std::filesystem::path& path) : path_(path.string()) {
  std::error_code no_folder;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), no_folder);
  Result<UniqueFd> opened = open_own_file(path_, O_WRONLY | O_CREAT | O_APPEND, 0666);
  // Of a folder that could not be made open() knows only that it is missing.
  if (!opened) {
    const std::error_code failed = opened.error();
    throw std::system_error(no_folder ? no_folder : failed, path_);
  }
  fd_ = std::move(*opened);
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
  const Result<UniqueFd> file = open_own_file(path, O_RDONLY);
  if (!file) return false;
  const off_t end = ::lseek(file->get(), 0, SEEK_END);
  char last = '\n';
  return end > 0 && ::pread(file->get(), &last, 1, end - 1) == 1 && last != '\n';
}

}  // namespace ddprun::trainer
