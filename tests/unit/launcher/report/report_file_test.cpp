// The file of --report before the job starts.
#include "launcher/report/report_file.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/unique_handle.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using launcher::empty_report_file;

namespace {

/// Without the rights of root: root may write to everything.
class AsAnotherUser {
 public:
  AsAnotherUser() {
    if (user_ == 0) REQUIRE(seteuid(65534) == 0);
  }
  ~AsAnotherUser() {
    if (user_ == 0 && seteuid(0) != 0) std::abort();
  }
  AsAnotherUser(const AsAnotherUser&) = delete;
  AsAnotherUser& operator=(const AsAnotherUser&) = delete;

 private:
  uid_t user_ = geteuid();
};

}  // namespace

TEST_CASE("a report may go to a pipe or a device, which is left alone") {
  const test::TempDir folder;
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(empty_report_file(pipe).error == 0);
  CHECK(empty_report_file("/dev/null").error == 0);
}

TEST_CASE("a file, pipe or device without write permission is found before the job starts") {
  const test::TempDir folder;
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  const std::string pipe = (folder / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0444) == 0);
  const std::string file = (folder / "file").string();
  std::ofstream(file) << "{}";
  REQUIRE(chmod(file.c_str(), 0444) == 0);
  const AsAnotherUser user;
  CHECK(empty_report_file(pipe).error == EACCES);
  CHECK(empty_report_file(file).error == EACCES);
}

TEST_CASE("a socket cannot be the file of a report") {
  const test::TempDir folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder / "s").c_str(), sizeof address.sun_path - 1);
  const UniqueFd bound(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(bind(bound.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(empty_report_file(address.sun_path).error == EOPNOTSUPP);
}
