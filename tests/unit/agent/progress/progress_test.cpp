// Progress pages, which worker hangs by them, and its stacks.
#include <sys/stat.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "agent/progress/progress_page.hpp"
#include "agent/progress/progress_watch.hpp"
#include "agent/progress/stack_methods.hpp"
#include "tests/support/temp_dir.hpp"
#include "worker/ddprun_progress.h"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;
using Catch::Matchers::Contains;

namespace {

struct PageFields {
  std::string magic = "ddprun";
  std::uint16_t version = 1;
  std::uint64_t step = 5;
  std::uint64_t time_ns = 77;
  std::string phase = "forward";
  std::uint32_t place = 2;
  std::uint32_t flags = 0;
};

std::string page_bytes(const PageFields& fields = {}) {
  std::string bytes(kProgressPageBytes, '\0');
  const auto put = [&bytes](std::size_t at, const void* data, std::size_t size) {
    std::memcpy(bytes.data() + at, data, size);
  };
  put(0, fields.magic.data(), fields.magic.size());
  put(6, &fields.version, 2);
  put(8, &fields.step, 8);
  put(16, &fields.time_ns, 8);
  put(24, fields.phase.data(), fields.phase.size());
  put(48, &fields.place, 4);
  put(52, &fields.flags, 4);
  return bytes;
}

Sighting at(std::uint64_t step, std::uint32_t place = 0, std::uint64_t time_ns = 0) {
  ProgressPage page;
  page.step = step;
  page.place = place;
  page.time_ns = time_ns;
  return {true, page};
}

constexpr Sighting kNoPage{true, std::nullopt};

/// Looks every second with a time-out of 4; gives the culprit and the second in which it is found.
struct Found {
  int culprit = -1;
  int second = 0;
  friend bool operator==(const Found&, const Found&) = default;
};
Found found_in(const std::vector<std::vector<Sighting>>& seconds) {
  ProgressWatch watch(static_cast<int>(seconds.front().size()), 4s);
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (const auto hang = watch.look(seconds[i], 1s))
      return {hang->culprit.local_rank, static_cast<int>(i)};
  }
  return {};
}

/// Repeats the last second so many times.
std::vector<std::vector<Sighting>> then_stays(std::vector<std::vector<Sighting>> seconds,
                                              std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) seconds.push_back(seconds.back());
  return seconds;
}

}  // namespace

TEST_CASE("a progress page gives step and phase and place") {
  const auto page = parse_progress_page(page_bytes()).page;
  REQUIRE(page.has_value());
  CHECK(page->step == 5);
  CHECK(page->time_ns == 77);
  CHECK(page->phase == "forward");
  CHECK(page->place == 2);
  CHECK(page->watched);
  CHECK_FALSE(parse_progress_page(page_bytes({.flags = 1})).page->watched);
  CHECK(place_words(5, "forward") == "step 5 in phase \"forward\"");
  CHECK(place_words(5, "") == "step 5");
}

TEST_CASE("a phase may fill its bytes and shows nothing that a terminal acts on") {
  const std::string longest(kPhaseBytesMax, 'x');
  CHECK(parse_progress_page(page_bytes({.phase = longest})).page->phase == longest);
  CHECK(parse_progress_page(page_bytes({.phase = ""})).page->phase.empty());
  CHECK(parse_progress_page(page_bytes({.phase = "a\x1b[2J\n\xff\"b"})).page->phase == "a?[2J???b");
}

TEST_CASE("a page that is being made is not there yet") {
  for (const std::string& bytes :
       {std::string(), std::string(64, '\0'), std::string(10, '\0'),
        page_bytes({.magic = "", .version = 0}), page_bytes({.magic = "ddp", .version = 0}),
        page_bytes({.version = 0})}) {
    const auto reading = parse_progress_page(bytes);
    CHECK_FALSE(reading.page.has_value());
    CHECK(reading.problem.empty());
  }
}

TEST_CASE("an invalid page gives a reason") {
  const auto problem = [](const std::string& bytes) {
    const auto reading = parse_progress_page(bytes);
    CHECK_FALSE(reading.page.has_value());
    return reading.problem;
  };
  CHECK_THAT(problem("step 5\n"), Contains("7 of 64 bytes"));
  CHECK_THAT(problem(page_bytes().substr(0, 63)), Contains("63 of 64 bytes"));
  CHECK_THAT(problem(page_bytes({.magic = "DDPRUN"})), Contains("does not begin with"));
  CHECK_THAT(problem(page_bytes({.magic = "x", .version = 0})), Contains("does not begin with"));
  CHECK_THAT(problem(page_bytes({.version = 2})), Contains("version is 2"));
}

TEST_CASE("a missing page file is not created and a path that is no file is no page") {
  const test::TempDir folder;
  CHECK(read_progress_page("").problem.empty());
  CHECK(read_progress_page((folder / "absent").string()).problem.empty());
  std::ofstream(folder / "page") << page_bytes() << "more";
  CHECK(read_progress_page((folder / "page").string()).page->step == 5);
  CHECK_THAT(read_progress_page(folder.path().string()).problem, Contains("cannot be read"));
  CHECK_THAT(read_progress_page((folder / "page/x").string()).problem,
             Contains("cannot be opened"));
}

TEST_CASE("a worker reads on its page why it is told to end") {
  const test::TempDir folder;
  const std::string path = (folder / "page").string();
  REQUIRE(setenv("DDPRUN_PROGRESS_FILE", path.c_str(), 1) == 0);
  write_stop_reason(path, StopReason::save);
  CHECK_FALSE(std::filesystem::exists(path));
  CHECK(ddprun_progress_stop() == DDPRUN_STOP_UNKNOWN);

  ddprun_progress worker;
  REQUIRE(ddprun_progress_open(&worker) == 0);
  CHECK(ddprun_progress_stop() == DDPRUN_STOP_UNKNOWN);
  ddprun_progress_update(&worker, 5, "forward");
  write_stop_reason(path, StopReason::save);
  CHECK(ddprun_progress_stop() == DDPRUN_STOP_SAVE);
  ddprun_progress_update(&worker, 6, "forward");
  CHECK(ddprun_progress_stop() == DDPRUN_STOP_SAVE);
  CHECK(read_progress_page(path).page->step == 6);
  write_stop_reason(path, StopReason::now);
  ddprun_progress_close(&worker);
  CHECK(ddprun_progress_stop() == DDPRUN_STOP_NOW);
  CHECK(std::filesystem::file_size(path) == kLongPageBytes);
  unsetenv("DDPRUN_PROGRESS_FILE");
  CHECK(ddprun_progress_stop() == DDPRUN_STOP_UNKNOWN);
}

TEST_CASE("the reason of a stop changes no file but a page") {
  const test::TempDir folder;
  const auto write = [](const std::filesystem::path& path) {
    write_stop_reason(path.string(), StopReason::now);
  };
  std::ofstream(folder / "short") << "step 5";
  write(folder / "short");
  CHECK(std::filesystem::file_size(folder / "short") == 6);
  std::ofstream(folder / "other") << std::string(100, 'x');
  std::filesystem::create_symlink(folder / "other", folder / "link");
  write(folder / "link");
  std::string text;
  std::ifstream(folder / "other") >> text;
  CHECK(text == std::string(100, 'x'));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  write(folder / "pipe");  // does not wait for a reader
  write(folder.path());
  write_stop_reason("", StopReason::now);
}

TEST_CASE("a worker hangs when its page stays the same for the time-out") {
  CHECK(found_in(then_stays({{at(1)}, {at(2)}}, 9)) == Found{0, 5});
  CHECK(found_in({{at(1)}, {at(2)}, {at(3)}, {at(4)}, {at(5)}, {at(6)}, {at(7)}}) == Found{});
  // A new time alone is a sign of life.
  CHECK(found_in({{at(1, 0, 1)},
                  {at(1, 0, 2)},
                  {at(1, 0, 3)},
                  {at(1, 0, 4)},
                  {at(1, 0, 5)},
                  {at(1, 0, 6)}}) == Found{});
}

TEST_CASE("no worker is judged before its first page or while it asks not to be or after its end") {
  CHECK(found_in(then_stays({{kNoPage}}, 20)) == Found{});
  Sighting closed = at(9);
  closed.page->watched = false;
  CHECK(found_in(then_stays({{at(9)}, {closed}}, 20)) == Found{});
  Sighting ended = at(9);
  ended.running = false;
  CHECK(found_in(then_stays({{at(9)}, {ended}}, 20)) == Found{});
  // From a page that has become garbage on.
  CHECK(found_in(then_stays({{at(9)}, {kNoPage}}, 20)) == Found{});
  // The silence before that is forgotten.
  CHECK(found_in({{at(9)}, {at(9)}, {at(9)}, {at(9)}, {kNoPage}, {at(9)}, {at(9)}, {at(9)}}) ==
        Found{});
}

TEST_CASE("of the silent workers the culprit is the one furthest behind") {
  // By its step; the others wait for it.
  CHECK(found_in(then_stays({{at(5), at(4), at(5)}}, 9)) == Found{1, 4});
  // By its place within the step: rank 0 entered the all-reduce before rank 1 began to compute.
  CHECK(found_in(then_stays({{at(5, 2), at(5, 0)}, {at(5, 2), at(5, 1)}}, 9)) == Found{1, 5});
  // By its phase, where no worker counts places: many are waiting.
  Sighting waits = at(5);
  waits.page->phase = "all-reduce";
  Sighting hangs = at(5, 0, 9);
  hangs.page->phase = "forward";
  CHECK(found_in(then_stays({{waits, waits, at(4)}, {waits, waits, hangs}}, 9)).culprit == 2);
  // By being alone, where it makes more updates than the waiting workers: a checkpoint of rank 0.
  Sighting saves = at(5, 3);
  saves.page->phase = "save optimizer";
  Sighting barrier = at(5, 2);
  barrier.page->phase = "barrier";
  CHECK(found_in(then_stays({{saves, barrier, barrier, barrier}}, 9)).culprit == 0);
  CHECK(found_in(then_stays({{saves, barrier}}, 9)).culprit == 1);  // of two, none is
  // By its silence, where no worker reports more than a step.
  CHECK(found_in(then_stays({{at(5), at(4)}, {at(5), at(5)}}, 9)).culprit == 0);
  // By its own time, where all fell silent between two looks.
  CHECK(found_in(then_stays({{at(5, 0, 8), at(5, 0, 7)}}, 9)).culprit == 1);
}

TEST_CASE("a worker that waits for a slow one is not judged before the slow one is silent too") {
  const std::vector<std::vector<Sighting>> slow{{at(5), at(4)}, {at(5), at(5)}};
  CHECK(found_in(then_stays(slow, 9)).second == 5);
  // The slow one does something long by now.
  CHECK(found_in(then_stays(
            {{at(5, 1), at(4)}, {at(5, 1), at(4)}, {at(5, 1), at(4)}, {at(5, 1), at(5)}}, 9)) ==
        Found{1, 7});
  // It never catches up nor stops: the silent one is judged in the end.
  std::vector<std::vector<Sighting>> behind;
  for (std::uint64_t step = 0; step < 12; ++step) behind.push_back({at(50), at(step)});
  CHECK(found_in(behind) == Found{0, 8});
  // But a worker that never comes to wait is judged alone.
  std::vector<std::vector<Sighting>> alone;
  for (std::uint64_t step = 0; step < 9; ++step) alone.push_back({at(5), at(10 + step)});
  CHECK(found_in(alone) == Found{0, 5});
}

TEST_CASE("a hang names the others that are silent and how far they are") {
  ProgressWatch watch(4, 2s);
  const std::vector<Sighting> sightings{at(5, 1), at(4), kNoPage, at(6)};
  CHECK_FALSE(watch.look(sightings, 1s).has_value());
  CHECK_FALSE(watch.look(sightings, 1s).has_value());
  const auto hang = watch.look(sightings, 1s);
  REQUIRE(hang.has_value());
  CHECK(hang->culprit.local_rank == 1);
  CHECK(hang->culprit.silent_for == 2s);
  REQUIRE(hang->others.size() == 2);
  CHECK(hang->others[0].local_rank == 0);
  CHECK(hang->others[1].page.step == 6);
  watch.forget();
  CHECK_FALSE(watch.look(sightings, 5s).has_value());
  CHECK(watch.look(sightings, 2s)->culprit.local_rank == 1);
}

TEST_CASE("looks come often enough and at most once a second") {
  CHECK(look_period(2s) == 500ms);
  CHECK(look_period(1h) == 1s);
  CHECK(look_period(1ms) == 10ms);
}

TEST_CASE("time in which the job was paused or ddprun could not look does not count as silence") {
  const LookClock::Clock::time_point start{1h};
  LookClock clock(1s, start);
  CHECK(clock.counted(start + 1s) == 1s);
  CHECK(clock.counted(start + 60s) == 2s);
  clock.pause();
  CHECK(clock.counted(start + 61s) == 0s);
  clock.resume();
  CHECK(clock.counted(start + 62s) == 0s);
  CHECK(clock.counted(start + 63s) == 1s);
  clock.pause();
  clock.resume();
  CHECK(clock.counted(start + 64s) == 0s);
  CHECK(clock.counted(start + 65s) == 1s);
}

TEST_CASE("a worker that prints nothing is named once for each silence") {
  OutputWatch watch(2, 2s);
  CHECK(watch.look({0, 0}, 1s).empty());
  CHECK(watch.look({0, 5}, 1s) == std::vector<QuietWorker>{{0, 2s}});
  CHECK(watch.look({0, 5}, 1s).empty());
  CHECK(watch.look({1, 5}, 1s) == std::vector<QuietWorker>{{1, 2s}});
  CHECK(watch.look({1, std::nullopt}, 1s).empty());
  CHECK(watch.look({1, std::nullopt}, 1s) == std::vector<QuietWorker>{{0, 2s}});
}

TEST_CASE(
    "a job is silent when all workers that are seen are, and the first to fall silent is named") {
  OutputWatch watch(3, 2s);
  CHECK_FALSE(watch.all_quiet());
  CHECK(watch.look({0, std::nullopt, 7}, 1s).empty());
  CHECK(watch.look({0, std::nullopt, 7}, 1s).size() == 1);
  CHECK_FALSE(watch.all_quiet());  // rank 2 printed a second ago
  CHECK(watch.look({0, std::nullopt, 7}, 1s).size() == 1);
  CHECK(watch.all_quiet() == QuietWorker{2, 2s});  // rank 0 never prints
  watch.forget();
  CHECK_FALSE(watch.all_quiet());
  OutputWatch nothing(1, 2s);
  CHECK(nothing.look({std::nullopt}, 9s).empty());
  CHECK_FALSE(nothing.all_quiet());
}

TEST_CASE("a worker that ddprun does not read is not silent meanwhile") {
  OutputWatch watch(2, 2s);
  for (int look = 0; look < 9; ++look)
    CHECK(watch.look({5, std::nullopt}, 1s, {true, false}).empty());
  CHECK_FALSE(watch.all_quiet());
  CHECK(watch.look({5, std::nullopt}, 1s, {false, false}).empty());
  CHECK(watch.look({5, std::nullopt}, 1s, {false, false}) == std::vector<QuietWorker>{{0, 2s}});
}

TEST_CASE("Python is looked at by py-spy first and other programs by gdb") {
  const StackPrograms both{"/u/py-spy", "/u/gdb"};
  const auto names = [](const std::vector<StackMethod>& methods) {
    std::vector<std::string> result;
    for (const auto& method : methods) result.push_back(method.name);
    return result;
  };
  using Names = std::vector<std::string>;
  CHECK(names(stack_methods("/usr/bin/python3.11", 7, both)) == Names{"py-spy", "gdb"});
  CHECK(names(stack_methods("/opt/train", 7, both)) == Names{"gdb"});
  CHECK(names(stack_methods("/usr/bin/python3", 7, {"", "/u/gdb"})) == Names{"gdb"});
  CHECK(names(stack_methods("/opt/train", 7, {"/u/py-spy", ""})).empty());
  CHECK(stack_methods("/usr/bin/python3", 7, both)[0].argv ==
        Names{"/u/py-spy", "dump", "--pid", "7"});
}

TEST_CASE("of a debugger's output the threads and their frames are kept") {
  const auto lines = stack_lines(
      "[New LWP 12]\nwarning: Error disabling address space\n0x1 in poll ()\n\nThread 1 "
      "\"a\x1b\":\n"
      "#0  poll ()\n#1  main ()\n[Inferior 1 (process 7) detached]");
  CHECK(lines == std::vector<std::string>{"Thread 1 \"a?\":", "#0  poll ()", "#1  main ()"});
  CHECK(has_frames(lines));
  CHECK_FALSE(has_frames(stack_lines("ptrace: Operation not permitted.\n")));
  CHECK(stack_lines("ptrace: Operation not permitted.\n").size() == 1);
  CHECK(stack_lines(std::string(100'000, 'x') + std::string(100'000, '\n')).size() == 1);
}

TEST_CASE("of a Python process a debugger's frames of the interpreter are counted") {
  const std::vector<std::string> lines = {"Thread 1 (LWP 7) \"python\":",
                                          "#0  0x00007f12 in select () from /lib/libc.so.6",
                                          "#1  pysleep (timeout=...) at time.c:2",
                                          "#2  0x0055 in _PyEval_EvalFrameDefault ()",
                                          "#3  0x0056 in object_vacall ()",
                                          "#4  main ()",
                                          "Thread 2 (LWP 8) \"gloo\":",
                                          "#0  epoll_wait (epfd=3) at epoll_wait.c:30",
                                          "#1  0x00 in gloo::transport::tcp::Loop::run (Py=1)",
                                          "(More stack frames follow...)"};
  CHECK(without_interpreter(lines) ==
        std::vector<std::string>{lines[0], lines[1], lines[2],
                                 "    (3 frames of Python's interpreter)", lines[6], lines[7],
                                 lines[8], lines[9]});
  CHECK(without_interpreter({}).empty());
  auto stacks = without_interpreter(lines);
  stacks.insert(stacks.begin(), "by gdb:");
  CHECK(first_thread_of_python(stacks).lines == 5);
  CHECK(first_thread_of_python(stacks).other_threads == 1);
  CHECK(first_thread_of_python(lines).lines == lines.size());
  CHECK(first_thread_of_python(lines).other_threads == 0);
  CHECK(first_thread_of_python({}).lines == 0);
  CHECK(stack_methods("/usr/bin/python3", 7, {"", "/usr/bin/gdb"}).front().shows_interpreter);
  CHECK_FALSE(stack_methods("/usr/bin/a.out", 7, {"", "/usr/bin/gdb"}).front().shows_interpreter);
}

TEST_CASE("programs are found in the absolute folders of a PATH") {
  CHECK(find_program("sh", "/nowhere:/bin") == "/bin/sh");
  CHECK(find_program("sh", "") == "");
  CHECK(find_program("no-such-program", "/bin::.") == "");
}
