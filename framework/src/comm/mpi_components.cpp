// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_components.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "comm/mpi_call.hpp"

namespace trireme {
namespace {

// The name of a control variable; "" where its component is closed.
std::string variable_name(int index) {
  std::array<char, 256> name = {};
  int name_length = static_cast<int>(name.size());
  std::array<char, 1> description = {};  // not wanted, but a length of 0 would be filled
  int description_length = static_cast<int>(description.size());
  int verbosity = 0, binding = 0, scope = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_T_enum enumeration = MPI_T_ENUM_NULL;
  const int code =
      MPI_T_cvar_get_info(index, name.data(), &name_length, &verbosity, &type, &enumeration,
                          description.data(), &description_length, &binding, &scope);
  return code == MPI_SUCCESS ? name.data() : "";
}

// "tcp" of "btl_tcp_links" goes into the list of btl.
void note(MpiComponents& components, const std::string& variable) {
  const std::size_t end = variable.find('_', 4);
  if (end == std::string::npos) return;
  const std::string framework = variable.substr(0, 4);
  std::vector<std::string>* list = framework == "pml_"   ? &components.pml
                                   : framework == "btl_" ? &components.btl
                                   : framework == "mtl_" ? &components.mtl
                                                         : nullptr;
  const std::string component = variable.substr(4, end - 4);
  if (list == nullptr || component == "base") return;
  if (std::ranges::find(*list, component) == list->end()) list->push_back(component);
}

}  // namespace

MpiComponents mpi_components() {
  int provided = MPI_THREAD_SINGLE;
  check_mpi(MPI_T_init_thread(MPI_THREAD_SERIALIZED, &provided), "MPI_T_init_thread");
  int count = 0;
  check_mpi(MPI_T_cvar_get_num(&count), "MPI_T_cvar_get_num");
  MpiComponents components;
  for (int index = 0; index < count; ++index) note(components, variable_name(index));
  check_mpi(MPI_T_finalize(), "MPI_T_finalize");
  for (auto* list : {&components.pml, &components.btl, &components.mtl}) std::ranges::sort(*list);
  return components;
}

std::string transport_text(const MpiComponents& components) {
  const std::string text = joined(components.pml);
  if (text == "ob1") return text + " (" + joined(components.btl) + ")";
  if (text == "cm") return text + " (" + joined(components.mtl) + ")";
  return text;
}

}  // namespace trireme
