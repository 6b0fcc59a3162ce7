#include "base/latest_link.hpp"

#include <unistd.h>

#include <fstream>
#include <string>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

/// A stranger's link of this name must not lead the text to another file.
void write_instead(const fs::path& file, const fs::path& name, const fs::path& fresh) {
  std::error_code failed;
  const auto type = fs::symlink_status(file, failed).type();
  if (type != fs::file_type::regular && type != fs::file_type::not_found) return;
  std::ofstream(fresh) << name.string() << '\n';
  fs::rename(fresh, file, failed);
  if (failed) fs::remove(fresh, failed);
}

}  // namespace

void lead_latest_to(const fs::path& base, const fs::path& folder) {
  std::error_code failed;
  const auto link = base / "latest";
  const auto type = fs::symlink_status(link, failed).type();
  if (type != fs::file_type::symlink && type != fs::file_type::not_found) return;
  const auto fresh = base / (".latest_" + std::to_string(::getpid()));
  fs::create_symlink(folder.filename(), fresh, failed);
  if (failed) return write_instead(base / "latest.txt", folder.filename(), fresh);
  fs::rename(fresh, link, failed);
  if (failed) fs::remove(fresh, failed);
}

}  // namespace ddprun
