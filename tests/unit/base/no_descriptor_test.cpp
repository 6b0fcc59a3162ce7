#include "base/no_descriptor.hpp"

#include <catch2/catch.hpp>
#include <cerrno>

using namespace ddprun;

namespace {

ErrorCode error(int value) { return {value, boost::system::system_category()}; }

}  // namespace

TEST_CASE("errors of the process or the machine are told from those of one connection") {
  for (const int value : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) CHECK(no_descriptor(error(value)));
  for (const int value : {0, ECONNABORTED, EPERM, EINTR}) CHECK_FALSE(no_descriptor(error(value)));
}

TEST_CASE("a limit of descriptors is named with its remedy") {
  CHECK(why_no_descriptor(error(EMFILE)) ==
        "Too many open files; raise the limit of open files (ulimit -n)");
  CHECK(why_no_descriptor(error(ENFILE)) ==
        "Too many open files in system; raise the machine's limit of open files (sysctl "
        "fs.file-max)");
  CHECK(why_no_descriptor(error(ENOSPC)) ==
        "too many watched descriptors; raise the limit (sysctl fs.epoll.max_user_watches)");
  CHECK(why_no_descriptor(error(ENOMEM)) == "Cannot allocate memory");
}
