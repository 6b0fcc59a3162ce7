#include "base/latest_link.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "base/open_file.hpp"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr mode_t kTextMode = 0666;  // less the umask

enum class Made { link, nothing, no_links_here };

Made make_link(const fs::path& target, const fs::path& fresh, CreateLink create) {
  if (create(target.c_str(), fresh.c_str()) == 0) return Made::link;
  // A program with this number was killed here.
  if (errno == EEXIST && ::unlink(fresh.c_str()) == 0 && create(target.c_str(), fresh.c_str()) == 0)
    return Made::link;
  const bool never = errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP;
  return never ? Made::no_links_here : Made::nothing;
}

/// A stranger's link of either name must not lead the text to another file.
void write_instead(const fs::path& file, const fs::path& name, const fs::path& fresh) {
  std::error_code failed;
  const auto type = fs::symlink_status(file, failed).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found) return;
  const auto fd = open_own_file(fresh.string(), O_WRONLY | O_CREAT | O_EXCL, kTextMode);
  if (!fd) return;
  const std::string text = name.string() + '\n';
  const bool written =
      ::write(fd->get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written) fs::rename(fresh, file, failed);
  if (!written || failed) fs::remove(fresh, failed);
}

}  // namespace

void lead_latest_to(const fs::path& base, const fs::path& folder, CreateLink create) {
  // A link to itself leads nowhere.
  if (folder.filename() == kLatestName) return;
  std::error_code failed;
  const auto link = base / kLatestName;
  const auto type = fs::symlink_status(link, failed).type();
  if (type != fs::file_type::symlink && type != fs::file_type::not_found) return;
  const auto fresh = base / (".latest_" + std::to_string(::getpid()));
  switch (make_link(folder.filename(), fresh, create)) {
    case Made::link:
      fs::rename(fresh, link, failed);
      if (failed) fs::remove(fresh, failed);
      return;
    case Made::no_links_here:
      return write_instead(base / kLatestTextName, folder.filename(), fresh);
    case Made::nothing:
      return;
  }
}

namespace {

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

}  // namespace

std::string file_name_of(std::string_view text) {
  std::size_t end = std::min(text.size(), kFileNameBytesMax);
  while (end > 0 && end < text.size() && continues_character(text[end])) --end;
  std::string name(text.substr(0, end));
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || (c >= 0 && c < ' ') || c == 127; },
      '_');
  return name.starts_with('.') ? "_" + name : name;
}

}  // namespace ddprun
