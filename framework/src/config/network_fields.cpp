// SPDX-License-Identifier: Apache-2.0
// The keys of section network. Which variables of Open MPI and UCX they set is in
// app/network_variables.cpp.
#include "config/field_types.hpp"

namespace trireme {
namespace {

constexpr double kMostBytes = 1 << 30;

// As in UCX's FAQ, "List of main transports and aliases", and in `ucx_info -d`.
std::vector<std::string> ucx_transports() {
  return {"all",      "self",    "tcp",     "sm",   "shm",       "posix",    "sysv",
          "cma",      "knem",    "xpmem",   "ib",   "rc",        "rc_v",     "rc_x",
          "rc_verbs", "rc_mlx5", "ud",      "ud_v", "ud_x",      "ud_verbs", "ud_mlx5",
          "dc",       "dc_x",    "dc_mlx5", "cuda", "cuda_copy", "cuda_ipc", "gdr_copy"};
}

std::vector<Field<Config>> shared_fields() {
  const auto network = &Config::network;
  return {
      field("transport", network, &NetworkConfig::transport,
            "What carries MPI's messages; auto leaves the choice to Open MPI.",
            {.choices = {"auto", "ucx", "tcp"}, .synonyms = {"backend"}}),
      field("interfaces", network, &NetworkConfig::interfaces,
            "IP interfaces to use, by name or as networks (10.0.0.0/16); an empty list means all.",
            {.synonyms = {"interface", "ifname", "socket_ifname"}}),
      field("rendezvous_bytes", network, &NetworkConfig::rendezvous_bytes,
            "Messages from about this size on wait until the receiver is ready; 0 means the "
            "library's choice, else at least 1024.",
            {.min = 0, .max = kMostBytes, .only_for = {"tcp", "ucx"}, .synonyms = {"eager_limit"}}),
      field("yield_when_idle", network, &NetworkConfig::yield_when_idle,
            "Whether a rank that waits inside MPI gives its core away; auto leaves it to Open MPI.",
            {.choices = {"auto", "always", "never"}}),
  };
}

std::vector<Field<Config>> tcp_fields() {
  const auto network = &Config::network;
  return {
      field("tcp_links", network, &NetworkConfig::tcp_links,
            "TCP connections between two ranks on each pair of interfaces; 0 means the library's "
            "choice.",
            {.min = 0, .max = 64, .only_for = {"tcp"}}),
      field("tcp_send_buffer", network, &NetworkConfig::tcp_send_buffer,
            "Bytes of a connection's send buffer; 0 means the kernel's choice.",
            {.min = 0, .max = kMostBytes, .only_for = {"tcp"}, .synonyms = {"sndbuf"}}),
      field("tcp_receive_buffer", network, &NetworkConfig::tcp_receive_buffer,
            "Bytes of a connection's receive buffer; 0 means the kernel's choice.",
            {.min = 0, .max = kMostBytes, .only_for = {"tcp"}, .synonyms = {"rcvbuf"}}),
  };
}

std::vector<Field<Config>> ucx_fields() {
  const auto network = &Config::network;
  return {
      field("ucx_tls", network, &NetworkConfig::ucx_tls,
            "UCX's transports that may be used, among them self; an empty list means all.",
            {.choices = ucx_transports(), .only_for = {"ucx"}, .synonyms = {"tls", "transports"}}),
      field("ucx_devices", network, &NetworkConfig::ucx_devices,
            "InfiniBand and RoCE ports that UCX may use besides `interfaces`, such as mlx5_0:1; "
            "with both lists empty it may use all.",
            {.only_for = {"ucx"}, .synonyms = {"devices", "net_devices"}}),
      field("ucx_rndv_scheme", network, &NetworkConfig::ucx_rndv_scheme,
            "How large messages move: the receiver reads them, or the sender writes them.",
            {.choices = {"auto", "get_zcopy", "put_zcopy"}, .only_for = {"ucx"}}),
      field("ucx_gid_index", network, &NetworkConfig::ucx_gid_index,
            "Which of a RoCE port's addresses to use; -1 means UCX's choice.",
            {.min = -1, .max = 255, .only_for = {"ucx"}, .synonyms = {"gid_index"}}),
      field("ucx_service_level", network, &NetworkConfig::ucx_service_level,
            "Service level of InfiniBand or RoCE packets; -1 means UCX's choice.",
            {.min = -1, .max = 15, .only_for = {"ucx"}, .synonyms = {"service_level", "sl"}}),
  };
}

}  // namespace

Section network_section() {
  Section section{.name = "network",
                  .help =
                      "How MPI's messages travel between machines; read before MPI starts. What "
                      "the environment or mpirun has set already wins, and is shown.",
                  .fields = shared_fields(),
                  .chooser = "transport"};
  for (const auto& more : {tcp_fields(), ucx_fields()}) {
    section.fields.insert(section.fields.end(), more.begin(), more.end());
  }
  return section;
}

}  // namespace trireme
