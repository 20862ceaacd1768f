// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "comm/mpi_call.hpp"
#include "comm/mpi_communicator.hpp"
#include "comm/mpi_components.hpp"
#include "trireme/error.hpp"

namespace trireme {
namespace {

// The number in an environment variable; 0 where it is not set.
long number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtol(text, nullptr, 10);
}

// Who started this process, and how many with it, as far as the environment tells.
struct Launcher {
  std::string name, remedy;
  long ranks = 1;
};

Launcher find_launcher() {
  // First: mpirun's own daemons are a Slurm step, too, and its ranks inherit their variables.
  if (const long ranks = number_of("OMPI_COMM_WORLD_SIZE"); ranks > 0)
    return {"mpirun", "use the mpirun of the MPI library that this program runs with", ranks};
  if (const long ranks = number_of("SLURM_STEP_NUM_TASKS"); ranks > 1)
    return {"srun", "start with `srun --mpi=pmix ...` or with mpirun", ranks};
  return {"a launcher of another MPI (PMI_SIZE)", "start with Open MPI's mpirun",
          number_of("PMI_SIZE")};
}

std::string lonely_text(const Launcher& launcher) {
  return launcher.name + " started " + std::to_string(launcher.ranks) +
         " ranks, but MPI sees a world of one rank in each of them; " + launcher.remedy;
}

std::string init() {
  int initialized = 0;
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  TRIREME_ASSERT(initialized == 0, "there is one MpiEnvironment a process");
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int size = 0;
  check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  if (const Launcher launcher = find_launcher(); size == 1 && launcher.ranks > 1)
    throw EnvironmentError(lonely_text(launcher));
  if (provided == MPI_THREAD_MULTIPLE) return "MPI_THREAD_MULTIPLE";
  if (provided == MPI_THREAD_SERIALIZED) return "MPI_THREAD_SERIALIZED";
  throw EnvironmentError("the MPI library offers no threads (below MPI_THREAD_SERIALIZED): " +
                         MpiEnvironment::library_version() +
                         "; use one that was built with thread support");
}

// [rank] -> lowest rank of its node
std::vector<int> find_nodes(MPI_Comm comm, int rank, int size, int ranks_per_node) {
  std::vector<int> nodes(static_cast<std::size_t>(size));
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  if (ranks_per_node > 0) {
    int place = 0;  // on the host
    check_mpi(MPI_Comm_rank(node, &place), "MPI_Comm_rank");
    MPI_Comm host = node;
    check_mpi(MPI_Comm_split(host, place / ranks_per_node, place, &node), "MPI_Comm_split");
    check_mpi(MPI_Comm_free(&host), "MPI_Comm_free");
  }
  int lowest = rank;
  check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_mpi(MPI_Comm_free(&node), "MPI_Comm_free");
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, nodes.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return nodes;
}

int tag_upper_bound(MPI_Comm comm) {
  int* bound = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&bound), &found),
            "MPI_Comm_get_attr");
  TRIREME_ASSERT(found != 0, "MPI_TAG_UB is always there");
  return *bound;
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name = {};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return std::string(name.data(), static_cast<std::size_t>(length));
}

void check_options(const MpiOptions& options) {
  TRIREME_ASSERT(options.max_message_bytes > 0 && options.max_message_bytes <= INT_MAX,
                 "max_message_bytes is what one MPI call can take");
  TRIREME_ASSERT(
      options.piece_bytes >= sizeof(double) && options.max_message_bytes >= sizeof(double),
      "a message takes at least one number");
  TRIREME_ASSERT(options.max_in_flight > 0, "max_in_flight is at least 1");
}

}  // namespace

struct MpiEnvironment::State {
  std::string host;
  std::string thread_level;
  std::string transport;
  std::string without_node_memory;
  int rank = 0;
  int size = 1;
  std::shared_ptr<MpiLink> link;
  std::atomic<bool> aborting = false;
};

bool MpiEnvironment::launched() {
  for (const char* variable :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}) {
    if (std::getenv(variable) != nullptr) return true;
  }
  return number_of("SLURM_STEP_NUM_TASKS") > 1;
}

std::string MpiEnvironment::wrong_launcher() {
  // Where one of these is set MPI may find the other ranks, and is asked.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"}) {
    if (std::getenv(variable) != nullptr) return {};
  }
  const Launcher launcher = find_launcher();
  return launcher.ranks > 1 ? lonely_text(launcher) : std::string();
}

std::string MpiEnvironment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version = {};
  int length = 0;
  check_mpi(MPI_Get_library_version(version.data(), &length), "MPI_Get_library_version");
  return version.data();  // Open MPI counts the terminating zero in length
}

bool MpiEnvironment::is_open_mpi() { return library_version().starts_with("Open MPI"); }

bool MpiEnvironment::has_ucx() {
  const std::vector<std::string> installed = mpi_components().pml;
  return std::ranges::find(installed, "ucx") != installed.end();
}

MpiEnvironment::MpiEnvironment(const MpiOptions& options) : state_(std::make_unique<State>()) {
  check_options(options);
  state_->thread_level = init();
  state_->host = processor_name();
  state_->transport = transport_text(mpi_components());
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(comm, &state_->rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &state_->size), "MPI_Comm_size");
  state_->link = std::make_shared<MpiLink>(
      comm, tag_upper_bound(comm) / 2 / options.max_in_flight,
      find_nodes(comm, state_->rank, state_->size, options.ranks_per_node), options);
}

// Where communicators outlive the environment, the link does, too; its thread must not.
MpiEnvironment::~MpiEnvironment() {
  static_cast<void>(state_->link->progress.stop(std::chrono::seconds(1)));
}

std::unique_ptr<Communicator> MpiEnvironment::world() {
  const int context = state_->link->next_context++;
  TRIREME_ASSERT(context == 0, "world() is called once");
  auto members = std::make_shared<std::vector<int>>(static_cast<std::size_t>(state_->size));
  std::iota(members->begin(), members->end(), 0);
  auto world = std::make_unique<MpiCommunicator>(state_->link, std::move(members), state_->rank,
                                                 context, std::chrono::milliseconds(0));
  state_->without_node_memory =
      state_->link->options.node_memory ? world->share_node_memory() : "it is switched off";
  return world;
}

const std::string& MpiEnvironment::without_node_memory() const {
  return state_->without_node_memory;
}

const std::string& MpiEnvironment::host() const { return state_->host; }

const std::string& MpiEnvironment::thread_level() const { return state_->thread_level; }

const std::string& MpiEnvironment::transport() const { return state_->transport; }

void MpiEnvironment::finalize() {
  if (!state_->link->progress.stop(std::chrono::seconds(10))) {
    throw CommError("cannot end MPI: a call of the MPI library hangs on the progress thread");
  }
  check_mpi(MPI_Finalize(), "MPI_Finalize");
}

void MpiEnvironment::abort(int exit_code) {
  if (state_->aborting.exchange(true)) {
    while (true) pause();  // another thread is at it
  }
  std::fflush(nullptr);  // what cannot be written now is lost in any case
  // Where the thread hangs in MPI the call below is still the best that is left.
  static_cast<void>(state_->link->progress.stop(std::chrono::seconds(1)));
  MPI_Abort(MPI_COMM_WORLD, exit_code);
  _exit(exit_code);  // MPI_Abort came back
}

}  // namespace trireme
