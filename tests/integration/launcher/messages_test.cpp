// Mistakes of surroundings: the message names the cause and what to type instead.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/job.hpp"
#include "tests/support/skip.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

/// What a shell line gives in which $D is ddprun.
test::ChildResult shell(const std::string& line) {
  test::Job job;
  auto settings = job.settings();
  settings.environment.emplace_back("D", test::program("ddprun"));
  return test::run({"/bin/sh", "-c", line}, settings);
}

}  // namespace

TEST_CASE("an address that is not this machine's is named as that") {
  // 192.0.2.0/24 is for documentation: no machine has it.
  for (const std::string store : {"agent", "rank0"}) {
    const auto result = test::Job().run({"--master-addr=192.0.2.1", "--worker-store=" + store},
                                        {"print", "started"});
    CHECK(result.status == 69);
    CHECK(result.out.empty());
    CHECK_THAT(result.err,
               Contains("192.0.2.1 is not an address of this machine; leave out --master-addr and "
                        "--local-addr"));
    CHECK_THAT(result.err, !Contains("master-port"));
  }
}

TEST_CASE("a resolver that never answers holds the start no longer than the time-out") {
  // Its own look-ups would take 5 x 30 s, longer than this test may.
  const test::TempDir folder;
  const std::string resolver = (folder / "resolv.conf").string();
  std::ofstream(resolver) << "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n";
  const std::string mount = "mount --bind " + resolver + " /etc/resolv.conf";
  const auto probe = test::run({"/usr/bin/env", "unshare", "-Urmn", "sh", "-c", mount});
  if (probe.status != 0) test::skip("no user and mount namespaces here: " + probe.err);
  // The loopback interface up, and a name server that is silent.
  const std::string silent =
      "import fcntl, os, socket, struct, sys\n"
      "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
      "fcntl.ioctl(s, 0x8914, struct.pack('16sh22x', b'lo', 1))\n"
      "s.bind(('127.0.0.1', 53))\n"
      "s.set_inheritable(True)\n"
      "os.execv(sys.argv[1], sys.argv[1:])\n";
  const auto result = test::run({"/usr/bin/env", "unshare", "-Urmn", "sh", "-c",
                                 mount + " && exec /usr/bin/python3 -c \"$@\"", "sh", silent,
                                 test::program("ddprun"), "--master-addr=node.example.net",
                                 "--rdzv-conf=timeout=2", "true"});
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("waiting for the name node.example.net") ||
                             Contains("node.example.net does not resolve to an address"));
}

TEST_CASE("a TMPDIR in which no folder can be made is named where logs go there") {
  const auto result = shell("TMPDIR=/no/such exec $D --redirects=3 true");
  CHECK(result.status == 2);
  CHECK_THAT(result.err, Contains("TMPDIR=/no/such does not exist") && Contains("--log-dir"));
  const auto refusing = shell("TMPDIR=/proc exec $D --redirects=3 true");
  CHECK(refusing.status == 2);
  CHECK_THAT(refusing.err, Contains("TMPDIR=/proc: no folder can be made in it: its file system") &&
                               !Contains("does not exist"));
  const auto there = shell("exec $D --redirects=3 --log-dir=/proc true");
  CHECK_THAT(there.err, Contains("cannot make a folder in /proc: its file system does not allow"));
  const auto given = shell("exec $D --redirects=3 --log-dir=/proc/none true");
  CHECK(given.status == 2);
  CHECK_THAT(given.err, Contains("--log-dir: cannot make a folder in /proc/none"));
}

TEST_CASE("broken links and pipes are named as such") {
  const auto link = shell("cd $TMPDIR; ln -s gone.py dangling.py; $D dangling.py; echo $?; rm *");
  CHECK_THAT(link.err, Contains("dangling.py is a link to gone.py, which does not exist"));
  CHECK(link.out == "127\n");
  const auto pipe = shell("cd $TMPDIR; mkfifo fifo.py; $D fifo.py; echo $?; rm *");
  CHECK_THAT(pipe.err, Contains("fifo.py is a pipe, not a file"));
  CHECK(pipe.out == "126\n");
}

TEST_CASE("a pipe without a reader is named as that where the report is lost") {
  const auto pipe = shell("cd $TMPDIR; mkfifo p; $D --report=p /bin/true; echo $?; rm p");
  CHECK_THAT(pipe.err, EndsWith("warning: cannot write report p: no process reads it\n"));
  CHECK(pipe.out == "0\n");
}

TEST_CASE("a program that could not be started has no pid") {
  const auto result =
      shell("cd $TMPDIR; printf '#!/no/such/shell\\n' > a; chmod +x a; $D ./a; echo $?; rm a");
  CHECK(result.out == "126\n");
  CHECK_THAT(result.err, Contains("culprit: rank 0 (local rank 0), could not be started") &&
                             Contains("interpreter /no/such/shell does not exist"));
}

TEST_CASE("the doctor shows what a job finds here, with this ddprun and its Python") {
  const auto result = shell("cp $D .; $D doctor; echo $?; PATH=.:$PATH $D doctor; rm ddprun");
  CHECK(result.err.empty());
  CHECK_THAT(result.out, StartsWith("Programs\n  ddprun             /") &&
                             Contains("ddprun: ddprun ") && Contains("\n  Python             3."));
  CHECK_THAT(result.out,
             Contains("\nSystem\n") && Contains("\n  level ") && Contains("\n  port 29500 "));
  CHECK_THAT(result.out, Contains("\n0\nPrograms\n"));
  const auto refused = shell("$D doctor --all; echo $?; $D --help=doctor; echo $?");
  CHECK(refused.out == "2\n2\n");
  CHECK_THAT(refused.err, StartsWith("ddprun: doctor takes no arguments") &&
                              Contains("type ddprun doctor: it shows"));
}

TEST_CASE("a program named doctor is started where it is typed as a path, and train is asked") {
  const auto result = shell(
      "mkdir -p other/libexec/ddprun other/bin; cp $D other/bin; D=$PWD/other/bin/ddprun; "
      "printf '#!/bin/sh\necho train 0.0.1\n' > other/libexec/ddprun/train; "
      "chmod +x other/libexec/ddprun/train; $D doctor | grep '  train '; "
      "printf '#!/bin/sh\nexit 127\n' > other/libexec/ddprun/train; $D doctor | grep '  train '; "
      "printf '#!/bin/sh\necho mine\n' > doctor; chmod +x doctor; $D ./doctor; rm -r other doctor");
  CHECK_THAT(result.out, Contains("/other/libexec/ddprun/train: train 0.0.1\n") &&
                             Contains("/other/libexec/ddprun/train: does not run\n") &&
                             EndsWith("mine\n"));
}

TEST_CASE("a secret made on request is found by its user's jobs, and shown by none of them") {
  const auto result = shell(
      "export HOME=$TMPDIR; unset XDG_CONFIG_HOME DDPRUN_SECRET_FILE; "
      "$D --make-secret; $D --make-secret; echo $?; "
      "$D --dry-run --nnodes=2 --master-addr=127.0.0.1 --rdzv-auth=required true; "
      "chmod 640 $HOME/.config/ddprun/secret; $D --nnodes=2 --master-addr=127.0.0.1 true; echo $?; "
      "cat $HOME/.config/ddprun/secret; rm -r $HOME/.config");
  REQUIRE(result.out.size() > 65);
  const std::string secret = result.out.substr(result.out.size() - 65, 64);
  CHECK_THAT(result.out, StartsWith("A new secret is in ") &&
                             Contains("\n2\nNothing was started (--dry-run).\n") &&
                             Contains("\nsecret       used, and required of the others\n") &&
                             Contains("\n  DDPRUN_SOCKET=(made at the start)\n") &&
                             EndsWith("\n2\n" + secret + "\n"));
  CHECK(result.out.find(secret) == result.out.size() - 65);
  CHECK_THAT(result.err, Contains("--make-secret: ") && Contains("exists and stays as it is") &&
                             Contains("chmod 600 ") && !Contains(secret));
}

TEST_CASE(
    "control characters of a run id and of PROGRAM reach neither the terminal nor file names") {
  const auto logs =
      shell("$D --rdzv-id=\"$(printf 'a\\nb\\033c')\" --redirects=3 true; ls $TMPDIR");
  CHECK(logs.status == 0);
  CHECK_THAT(logs.out, StartsWith("ddprun_2") && Contains("_a_b_c\n"));
  const auto missing = shell("exec $D \"$(printf 'no\\033[31m\\nsuch')\"");
  CHECK(missing.status == 127);
  CHECK_THAT(missing.err, StartsWith("ddprun: no\\x1b[31m\\nsuch: not found"));
}
