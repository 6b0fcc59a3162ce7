#include "launcher/texts/texts.hpp"

#include "launcher/options/option_table.hpp"
#include "launcher/texts/exit_code_texts.hpp"
#include "texts/program_text.hpp"

namespace ddprun::launcher {
namespace {

constexpr const char* kProgramTitle = "How PROGRAM is found";
constexpr const char* kProgramRules =
    "A name with a slash is that file: .py, .pyc and .pyz run under Python, an executable file by "
    "itself.\n"
    "A name without a slash is a program that comes with ddprun (train); else a file in the "
    "current folder, if it is a Python file or not executable, and it runs under Python; else a "
    "program on PATH.\n"
    "Python is $PYTHON_EXEC, else that of the environment (venv, conda) that ddprun is installed "
    "in, else python3, else python on PATH, with -u.\n"
    "Arguments after PROGRAM belong to PROGRAM, and ddprun does not read them. It removes one -- "
    "directly before or after PROGRAM.\n"
    "doctor alone, as in ddprun doctor, is no program: it shows what ddprun finds on this machine, "
    "and what each missing thing costs.\n"
    "${local_rank} in an argument becomes the worker's local rank.";

TextSection environment_section() {
  return {
      .title = "Environment",
      .text =
          "Workers get the same variables as under torchrun: RANK, LOCAL_RANK, WORLD_SIZE, "
          "MASTER_ADDR, MASTER_PORT and others. ddprun itself reads:",
      .terms = {{"PET_NAME",
                 "Default of the option of that name, as for torchrun. The command line overrides "
                 "it. The variable of a flag is a number (0 is off, others on) or true, false, "
                 "yes, no, on, off. An empty variable counts as not set, with one warning"},
                {"SLURM_STEP_NUM_NODES and others",
                 "What a scheduler (Slurm, MPI, Flux, Kubernetes) says about this node is the "
                 "default of --nnodes, --node-rank, --rdzv-endpoint, --rdzv-id and "
                 "--nproc-per-node; --dry-run shows it, and docs/clusters.md lists the variables"},
                {"PYTHON_EXEC", "The Python that runs scripts and modules"},
                {"LOGLEVEL", "Level of ddprun's own messages if --log-level is absent"},
                {"CUDA_VISIBLE_DEVICES",
                 "GPUs that the job may use: numbers, GPU- and MIG- names. As for CUDA, entries "
                 "after an invalid one are ignored"},
                {"OMP_NUM_THREADS",
                 "Set to 1 for several workers if it is absent, as under torchrun"}},
      .in_help = false};
}

TextSection exit_section() {
  TextSection section{
      .title = "Exit status",
      .text =
          "A failed job ends with the culprit's exit code, or 128 + its signal. A worker may "
          "itself exit with any of the codes below. ddprun's own codes:",
      .terms = {}};
  for (const auto& [code, meaning] : kExitCodeTexts)
    section.terms.push_back({std::to_string(code), std::string(meaning)});
  return section;
}

ProgramText program_text() {
  ProgramText program{
      .name = "ddprun",
      .page = "ddprun",
      .purpose = "start the workers of a training job, watch them, and restart them on failure",
      .synopsis = "ddprun [OPTIONS] PROGRAM [ARGUMENTS...]",
      .description =
          "ddprun starts the workers of a training job on this machine and watches them. If one "
          "fails, it starts all of them again, as often as --max-restarts allows. Programs and "
          "command lines for torchrun work unchanged. With --nnodes, the same command on several "
          "machines starts one job.",
      .examples =
          {{"ddprun --nproc-per-node=2 train", "the bundled trainer, two workers"},
           {"ddprun --nproc-per-node=gpu train.py --lr 0.1", "a Python script, one worker per GPU"},
           {"ddprun --gpus=0,2 --max-restarts=3 train.py",
            "on two of the GPUs, with up to 3 restarts"},
           {"ddprun --nproc-per-node=4 -m project.train", "a Python module"},
           {"ddprun --nproc-per-node=2 ./a.out --any", "any program; options after it are its own"},
           {"ddprun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1 train.py",
            "one job on two machines, of which one is node1; type it on both"},
           {"ddprun --dry-run --nproc-per-node=2 train", "only show what would be started and why"},
           {"ddprun doctor", "what this machine has, and what each missing thing costs"}},
      .option_rules =
          "Long names can be shortened if they stay unambiguous. If an option is repeated, the "
          "last one counts. torchrun's variables PET_NAME give defaults.",
      .options = {},
      .sections = {{.title = kProgramTitle, .text = kProgramRules, .terms = {}},
                   environment_section(),
                   exit_section()},
      .see_also = "ddprun-train(1), rdzvd(8)",
      .topics = {{std::string(group_title(OptionGroup::streams)), "streams|logs"},
                 {std::string(group_title(OptionGroup::failures)), "failures|restarts"},
                 {std::string(group_title(OptionGroup::rendezvous)), "rendezvous|store|nodes"},
                 {kProgramTitle, "program"}},
      .takes_program = true,
      .own_programs = {{"train", "bundled trainer"}}};
  for (const auto& row : option_table()) program.options.push_back(option_text(row));
  return program;
}

/// How to get the help of a program of ddprun that is no topic; empty: it is none.
std::string other_program(std::string_view word) {
  if (word == "train") return "train is a program: ddprun train --help shows its options";
  if (word == "doctor") return "type ddprun doctor: it shows what ddprun finds on this machine";
  if (word == "rdzvd") return "rdzvd is another program: rdzvd --help shows its options";
  return "";
}

}  // namespace

std::string short_help_text() {
  return R"(Usage: ddprun [OPTIONS] PROGRAM [ARGUMENTS...]

Starts the workers of a training job and watches them. With --max-restarts=N it
starts them again if one fails. Command lines for torchrun work unchanged.

  ddprun --nproc-per-node=2 train           the bundled trainer, two workers
  ddprun --nproc-per-node=gpu train.py      a Python script, one worker per GPU
  ddprun --nproc-per-node=2 ./a.out --any   any program with its own options
  ddprun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=node1 train.py
                                            one job: type it on two machines

  --nproc-per-node=N|gpu|cpu|auto  workers (default: 1)
  --gpus=all|none|0,2              GPUs of the job (default: all)
  --max-restarts=N                 restarts after failures (default: 0)
  --nnodes=N|MIN:MAX               machines of the job (default: 1)
  --progress-timeout=SECONDS       treat a worker as hung if it reports no
                                   progress for this long (default: off)
  --log-dir=FOLDER --tee=3         also keep each worker's output in files
  --rank-filter=RANKS              show only the output of these ranks
  --output=raw                     show the output unchanged, without prefixes
  --report=FILE                    write how the job ended to FILE, as JSON
  --dry-run                        show what would be started and why

ddprun --help lists all options, --help=streams one group; --man explains them.
ddprun doctor shows what this machine has, and what each missing thing costs.
)";
}

std::string help_text() { return help(program_text()); }

TopicHelp help_on(std::string_view topic) {
  if (const auto other = other_program(topic); !other.empty())
    return {false, "--help=" + std::string(topic) + ": " + other};
  return topic_help(program_text(), topic);
}

std::string help_on_next_word(std::string_view word) {
  return word.empty() ? "" : help_of_topic(program_text(), word);  // each start asks
}

std::string line_on_next_word(std::string_view word) {
  const std::string other = other_program(word);
  return other.empty() ? "" : "\n" + other + ".\n";
}

std::string man_page(std::string_view format) { return page_in(program_text(), format); }

std::string completion_script(std::string_view shell) { return completion(program_text(), shell); }

}  // namespace ddprun::launcher
