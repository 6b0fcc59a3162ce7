// Files are opened without waiting, and only where nothing else stands in their place.
#include "base/open_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;

namespace {

constexpr int kNew = O_WRONLY | O_CREAT | O_APPEND;

void make_pipe(const std::string& path) { REQUIRE(mkfifo(path.c_str(), 0600) == 0); }

}  // namespace

TEST_CASE("a regular file is opened as asked, and made where it is missing") {
  const test::TempDir dir;
  const auto file = open_own_file(dir / "new", kNew, 0640);
  REQUIRE(file.has_value());
  REQUIRE(write(file->get(), "text", 4) == 4);
  CHECK(std::filesystem::file_size(dir / "new") == 4);
  // Not O_NONBLOCK: a worker may inherit the file.
  CHECK((fcntl(file->get(), F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)) ==
        (O_WRONLY | O_APPEND));
  CHECK((fcntl(file->get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(open_own_file(dir / "new", O_RDONLY).has_value());
  CHECK(open_own_file(dir / "missing", O_RDONLY).error() ==
        boost::system::errc::no_such_file_or_directory);
}

TEST_CASE("a name is looked up in the folder that is given") {
  const test::TempDir dir;
  const UniqueFd folder(open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  CHECK(open_own_file("new", kNew, 0600, folder.get()).has_value());
  CHECK(std::filesystem::exists(dir / "new"));
}

TEST_CASE("a pipe, a device and a folder are refused without waiting for them") {
  const test::TempDir dir;
  make_pipe(dir / "pipe");
  std::filesystem::create_directory(dir / "folder");
  for (const int access : {O_RDONLY, O_RDWR | O_CREAT, O_WRONLY | O_CREAT | O_TRUNC}) {
    CHECK(open_own_file(dir / "pipe", access, 0600).error() == FileErrc::not_regular);
    CHECK(open_named_file(dir / "pipe", access, 0600).error() == FileErrc::not_regular);
    CHECK(open_named_file("/dev/null", access, 0600).error() == FileErrc::not_regular);
    CHECK(open_own_file(dir / "folder", access, 0600).has_error());
  }
}

TEST_CASE("a link is followed where the user names the file, never in a folder of ours") {
  const test::TempDir dir;
  std::ofstream(dir / "victim") << "precious";
  std::filesystem::create_symlink(dir / "victim", dir / "link");
  std::filesystem::create_symlink(dir / "absent", dir / "dangling");
  CHECK(open_named_file(dir / "link", O_RDONLY).has_value());
  CHECK(open_own_file(dir / "link", O_RDONLY).error() == FileErrc::symbolic_link);
  CHECK(open_own_file(dir / "link", O_WRONLY | O_CREAT | O_TRUNC, 0600).error() ==
        FileErrc::symbolic_link);
  CHECK(open_own_file(dir / "dangling", kNew, 0600).has_error());
  CHECK(std::filesystem::file_size(dir / "victim") == 8);
  CHECK_FALSE(std::filesystem::exists(dir / "absent"));
}
