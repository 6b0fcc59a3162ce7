// What the lines of a worker tell about its end.
#include "agent/evidence/line_signs.hpp"

#include <catch2/catch.hpp>

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;

namespace {

/// A stderr and a stdout by the clock.
struct Streams {
  LineSigns signs;
  LineSigns::Clock::time_point now{0s};

  Streams& lines(const std::vector<std::string>& texts, std::chrono::milliseconds each = 10ms) {
    for (const std::string& text : texts) {
      now += each;
      signs.line(text, [this] { return now; });
    }
    return *this;
  }
  Streams& quiet(std::chrono::milliseconds time) {
    now += time;
    return *this;
  }
  Streams& printed() {
    signs.other_output([this] { return now; });
    return *this;
  }
};

/// What stays after these lines; each comes 10 ms after the one before.
LineSigns after(const std::vector<std::string>& lines) { return Streams().lines(lines).signs; }

const std::vector<std::string> kTraceback{
    "Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>",
    "ValueError: bad lr"};

}  // namespace

TEST_CASE("a traceback begins with its first line and ends with its message") {
  const LineSigns signs =
      after({"step 1", "Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>",
             "ValueError: bad lr", "second line of it"});
  CHECK(signs.first_at() == LineSigns::Clock::time_point(20ms));
  CHECK(signs.message() == "ValueError: bad lr");
}

TEST_CASE("of a chain of exceptions the last one counts from the first one's time on") {
  const LineSigns signs = after(
      {"Traceback (most recent call last):", "  File \"a.py\", line 1", "KeyError: 'cache'", "",
       "During handling of the above exception, another exception "
       "occurred:",
       "", "Traceback (most recent call last):", "FileNotFoundError: /data/missing.bin"});
  CHECK(signs.first_at() == LineSigns::Clock::time_point(10ms));
  CHECK(signs.message() == "FileNotFoundError: /data/missing.bin");
}

TEST_CASE("the last line of a traceback is its message whatever the exception's name") {
  for (const std::string last :
       {"_queue.Empty", "KeyboardInterrupt", "Stop: no more", "MyFault: x"})
    CHECK(after({"Traceback (most recent call last):", "  File \"a.py\"", last}).message() == last);
}

TEST_CASE("exception groups are read through their drawing") {
  const LineSigns signs =
      after({"  + Exception Group Traceback (most recent call last):",
             "  |   File \"tg.py\", line 12, in <module>", "  |     asyncio.run(m())",
             "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
             "  +-+---------------- 1 ----------------", "    | Traceback (most recent call last):",
             "    |   File \"tg.py\", line 3, in a", "    |     raise ValueError(\"bad shard\")",
             "    | ValueError: bad shard", "    +------------------------------------"});
  CHECK(signs.first_at() == LineSigns::Clock::time_point(10ms));
  CHECK(signs.message() == "ValueError: bad shard");
}

TEST_CASE("messages of threads and destructors do not replace the main exception") {
  Streams streams;
  streams.lines(kTraceback)
      .lines({"Exception ignored in: <function X.__del__ at 0x7f>",
              "Traceback (most recent call last):", "  File \"x.py\"", "AttributeError: 'NoneType'",
              "Exception ignored in: <stdout>", "BrokenPipeError: [Errno 32] Broken pipe"});
  CHECK(streams.signs.message() == "ValueError: bad lr");
  streams.quiet(2s).lines({"Exception in thread QueueFeederThread:",
                           "Traceback (most recent call last):", "  File \"q.py\"",
                           "ConnectionResetError: [Errno 104] Connection reset by peer"});
  CHECK(streams.signs.message() == "ValueError: bad lr");
  CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(10ms));
  CHECK(after({"Exception in thread Thread-1 (f):", "Traceback (most recent call last):",
               "  File \"q.py\"", "OSError: gone"})
            .message() == "OSError: gone");
}

TEST_CASE("a worker that continues as before has handled its exception") {
  Streams streams;
  streams.lines(kTraceback).quiet(6s).lines({"epoch 2"});
  CHECK_FALSE(streams.signs.first_at().has_value());
  CHECK(streams.signs.message().empty());

  streams = {};
  streams.lines(kTraceback).quiet(1s).lines(std::vector<std::string>(25, "step"));
  CHECK_FALSE(streams.signs.first_at().has_value());

  streams = {};
  streams.lines(kTraceback).quiet(200ms).printed().quiet(200ms).printed();
  CHECK_FALSE(streams.signs.first_at().has_value());
  streams.lines({"OSError: the next one"});
  CHECK(streams.signs.message() == "OSError: the next one");
}

TEST_CASE("output during a tear-down does not count as handling an exception") {
  Streams streams;
  streams.lines(kTraceback)
      .lines(std::vector<std::string>(40, "a message of many lines"))
      .lines(std::vector<std::string>(60, "frame #7: c10::Error"))
      .quiet(2s)
      .lines({"wandb: uploading", "wandb: done"})
      .printed();
  CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(10ms));
}

TEST_CASE("a newer exception replaces a handled one") {
  Streams streams;
  streams.lines({"ConnectionRefusedError: [Errno 111] Connection refused"})
      .quiet(2s)
      .lines({"Traceback (most recent call last):", "ValueError: loss is NaN"});
  CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(2020ms));
  CHECK(streams.signs.message() == "ValueError: loss is NaN");
}

TEST_CASE("of stdout and stderr in one stream a lone exception's line is not certain") {
  Streams streams;
  streams.signs.with_stdout();
  streams.lines({"ValueError: bad sample 17, skipped"});
  CHECK(streams.signs.message() == "ValueError: bad sample 17, skipped");
  CHECK_FALSE(streams.signs.certain());
  SECTION("a traceback takes its place, from its own time on") {
    streams.lines(kTraceback);
    CHECK(streams.signs.certain());
    CHECK(streams.signs.first_at() == LineSigns::Clock::time_point(20ms));
    streams.quiet(1s).lines({"Error: cannot save"});
    CHECK(streams.signs.message() == "ValueError: bad lr");
  }
  SECTION("so do a crash's own words") {
    streams.lines({"terminate called after throwing an instance of 'E'", "  what():  x"});
    CHECK(streams.signs.certain());
    CHECK(streams.signs.message() == "  what():  x");
  }
  CHECK(after({"ValueError: bad lr"}).certain());
}

TEST_CASE("PyTorch's rank before a line of a traceback is no part of it") {
  const LineSigns signs = after({"[rank13]: Traceback (most recent call last):",
                                 "[rank13]: torch.OutOfMemoryError: CUDA out of memory."});
  CHECK(signs.message() == "torch.OutOfMemoryError: CUDA out of memory.");
}

TEST_CASE("crashes of C++, glibc, sanitizers and Python's own are recognized") {
  for (const std::string line :
       {"  what():  bad alloc", "Fatal Python error: Segmentation fault", "free(): invalid pointer",
        "train: a.cpp:12: void f(): Assertion `x > 0' failed.", "Error: no data",
        "thread 'main' panicked at src/main.rs:2:5:", "AssertionError", "my.pkg.OddException: why",
        "train: error: rank 12: cudaFree failed on GPU 0"}) {
    INFO(line);
    CHECK_FALSE(after({line}).message().empty());
  }
  CHECK(after({"terminate called after throwing an instance of 'std::runtime_error'"}).first_at());
}

TEST_CASE("the output of a healthy program is no sign of a failure") {
  for (const std::string line :
       {"", "loss 0.3", "warning: Error rate 3 %", "TestError handling works", "0Error: x",
        "  ValueError: indented", "[rank0] ok", "[rankx]: ValueError: no rank", "UserWarning: slow",
        "I1121 error_rate=0.2", "train: error: 0.25", "train: error: rank correlation 0.9",
        "train: warning: rank 0: the disk is full"}) {
    INFO(line);
    CHECK_FALSE(after({line}).first_at().has_value());
  }
}

TEST_CASE("words of a victim are found in any case and others are not") {
  for (const std::string text :
       {"RuntimeError: [gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:1",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a "
        "network error",
        "BrokenPipeError: [Errno 32] Broken pipe",
        "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation",
        "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
        "DistStoreError: Timed out after 4 seconds waiting for clients. 1/2 clients joined.",
        "DistStoreError: wait timeout after 300000ms",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"}) {
    INFO(text);
    CHECK_FALSE(victim_phrase(text).empty());
  }
  CHECK(victim_phrase("ValueError: bad lr").empty());
  CHECK(victim_phrase("").empty());
  CHECK(victim_phrase("[Errno 32] BrokenPipeError: x") == "BrokenPipeError");
  CHECK(is_time_out("Timed out waiting 8000ms for recv operation to complete"));
  CHECK(is_time_out("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3)"));
  CHECK_FALSE(is_time_out("Connection reset by peer"));
}

TEST_CASE(
    "the words by which train ends as a victim are known, those of its own failures are not") {
  const std::string error = "train: error: rank 0: ";
  const auto is_victim = [&](const std::string& text) {
    return !victim_phrase(error + text).empty();
  };
  const std::string gave_up = "gave up in step 7: ";
  for (const std::string& text :
       {gave_up + "rank 1 (pid 4711) ended before it finished the sum of bucket 3",
        gave_up + "rank 1 (pid 4711) left before it finished the barrier",
        gave_up + "aborted by rank 2 in bucket 3: rank 1 (pid 4711) ended before it finished it",
        std::string("rendezvous failed: rank 1 ended while NCCL connected the ranks")}) {
    INFO(text);
    CHECK(is_victim(text));
    CHECK_FALSE(is_time_out(error + text));
  }
  for (const std::string& text :
       {gave_up + "rank 0 has waited 60.000 s for the sum of bucket 3, until its deadline; a rank "
                  "hangs, or a network is cut",
        gave_up + "rank 1 (pid 4711), which still runs or is suspended, has not finished the "
                  "gradients of bucket 3 after rank 0 waited 60.000 s, until its deadline",
        std::string("rendezvous failed: waiting for rank 1 (key train/0.0/shm/1): not there by the "
                    "deadline; is that rank running?"),
        std::string("rendezvous failed: NCCL has not connected all ranks by the deadline: can "
                    "every host reach the others?")}) {
    INFO(text);
    CHECK(is_victim(text));
    CHECK(is_time_out(error + text));
  }
  for (const std::string& text :
       {std::string("cudaMemcpyAsync failed on GPU 0 (NVIDIA H200): unspecified launch failure"),
        std::string("the loss is not finite in step 3 (shard 1, sample 17 of the training set)"),
        std::string("after 60.000 s the GPU has not finished its own work before the sum of bucket "
                    "3: it hangs, or is too slow for --comm-timeout"),
        gave_up + "ncclAllReduce failed in the sum of bucket 3: unhandled cuda error",
        std::string("rendezvous failed: ncclCommInitRankConfig: unhandled cuda error")}) {
    INFO(text);
    CHECK_FALSE(is_victim(text));
  }
}

TEST_CASE("other programs may use train's words of a failure of their own") {
  for (const char* text : {"RuntimeError: aborted by rank 3: the loss is NaN",
                           "RuntimeError: data loader worker 2 ended before it finished",
                           "TimeoutError: the batch was not there by the deadline"}) {
    INFO(text);
    CHECK(victim_phrase(text).empty());
    CHECK_FALSE(is_time_out(text));
  }
}
