// Ping-pong between two processes over libfabric's `efa` provider, with a reliable datagram
// (RDM) endpoint.
//
//     rdm_pingpong [-p PORT] [-s BYTES] [-n ROUNDS]            one side
//     rdm_pingpong [-p PORT] [-s BYTES] [-n ROUNDS] ADDRESS    the other, on any host
//
// libfabric does what SRD leaves to software: messages of any length, in order, matched to posted
// receives. The steps are always the same: ask for the available fabrics (fi_getinfo), open fabric,
// domain, address vector, completion queue and endpoint, bind and enable them, register memory, and
// exchange addresses by other means (here TCP). There is no progress unless the program reads the
// completion queue.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "out_of_band.h"

namespace {

// Throws libfabric's message for a negative return value.
void check(long ret, const char *call)
{
	if (ret < 0)
		throw std::runtime_error(std::string(call) + ": " + fi_strerror(int(-ret)));
}

// Owners of libfabric objects: the last one opened is the first one closed.
struct Close {
	template <class Object> void operator()(Object *object) const { fi_close(&object->fid); }
};
struct FreeInfo {
	void operator()(fi_info *info) const { fi_freeinfo(info); }
};
template <class Object> using Owned = std::unique_ptr<Object, Close>;
using Info = std::unique_ptr<fi_info, FreeInfo>;

// One endpoint with its memory, and one peer.
class Node {
public:
	explicit Node(size_t bytes) : memory_(2 * bytes), bytes_(bytes)
	{
		Info hints(fi_allocinfo()); // what this program can do
		hints->caps = FI_MSG;
		hints->mode = FI_CONTEXT | FI_CONTEXT2; // gives every operation scratch space
		hints->ep_attr->type = FI_EP_RDM;
		hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
		hints->fabric_attr->prov_name = strdup("efa");
		fi_info *found = nullptr;
		check(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get(), &found),
		      "no efa provider or device (softefa run -- ...)");
		info_.reset(found);

		open(fabric_, "fi_fabric", [&](auto out) { return fi_fabric(info_->fabric_attr, out, nullptr); });
		open(domain_, "fi_domain", [&](auto out) { return fi_domain(fabric_.get(), info_.get(), out, nullptr); });
		fi_av_attr av_attr{};
		av_attr.type = FI_AV_TABLE;
		open(av_, "fi_av_open", [&](auto out) { return fi_av_open(domain_.get(), &av_attr, out, nullptr); });
		fi_cq_attr cq_attr{};
		cq_attr.format = FI_CQ_FORMAT_MSG;
		open(cq_, "fi_cq_open", [&](auto out) { return fi_cq_open(domain_.get(), &cq_attr, out, nullptr); });
		open(mr_, "fi_mr_reg", [&](auto out) {
			return fi_mr_reg(domain_.get(), memory_.data(), memory_.size(), FI_SEND | FI_RECV, 0, 1, 0, out, nullptr);
		});
		open(ep_, "fi_endpoint", [&](auto out) { return fi_endpoint(domain_.get(), info_.get(), out, nullptr); });
		check(fi_ep_bind(ep_.get(), &av_->fid, 0), "fi_ep_bind");
		check(fi_ep_bind(ep_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
		check(fi_enable(ep_.get()), "fi_enable");
	}

	// Exchanges endpoint addresses.
	void greet(int channel)
	{
		std::array<char, 64> name{}, theirs;
		size_t length = name.size();
		check(fi_getname(&ep_->fid, name.data(), &length), "fi_getname");
		swap(channel, name.data(), theirs.data(), name.size());
		if (fi_av_insert(av_.get(), theirs.data(), 1, &peer_, 0, nullptr) != 1)
			throw std::runtime_error("fi_av_insert took no address");
	}

	char *out() { return memory_.data(); }
	char *in() { return memory_.data() + bytes_; }

	void post_send()
	{
		post("fi_send", [&] { return fi_send(ep_.get(), out(), bytes_, desc(), peer_, &contexts_[0]); });
	}
	void post_recv()
	{
		post("fi_recv", [&] { return fi_recv(ep_.get(), in(), bytes_, desc(), FI_ADDR_UNSPEC, &contexts_[1]); });
	}

	// Reads completions until as many sends and receives are done as are asked for.
	void wait(int sends, int recvs)
	{
		while (sent_ < sends || received_ < recvs)
			progress();
	}

private:
	template <class Object, class Call> void open(Owned<Object> &object, const char *name, Call call)
	{
		Object *raw = nullptr;
		check(call(&raw), name);
		object.reset(raw);
	}

	// FI_EAGAIN: the provider is full; it has room again after some progress.
	template <class Call> void post(const char *name, Call call)
	{
		ssize_t ret;
		while ((ret = call()) == -FI_EAGAIN)
			progress();
		check(ret, name);
	}

	void progress()
	{
		fi_cq_msg_entry entry{};
		ssize_t found = fi_cq_read(cq_.get(), &entry, 1);
		if (found == -FI_EAVAIL) { // an operation failed: ask which and why
			fi_cq_err_entry error{};
			check(fi_cq_readerr(cq_.get(), &error, 0), "fi_cq_readerr");
			throw std::runtime_error(std::string("operation failed: ") + fi_strerror(error.err) + ", " +
						 fi_cq_strerror(cq_.get(), error.prov_errno, error.err_data, nullptr, 0));
		}
		if (found == -FI_EAGAIN)
			return;
		check(found, "fi_cq_read");
		if (entry.op_context == &contexts_[0])
			sent_++;
		else if (entry.len != bytes_)
			throw std::runtime_error("a message of another length came");
		else
			received_++;
	}

	void *desc() { return fi_mr_desc(mr_.get()); }

	std::vector<char> memory_; // the first half is sent, the second received into
	size_t bytes_;
	int sent_ = 0, received_ = 0;
	fi_addr_t peer_ = FI_ADDR_UNSPEC;
	std::array<fi_context2, 2> contexts_{};
	Info info_;
	Owned<fid_fabric> fabric_;
	Owned<fid_domain> domain_;
	Owned<fid_av> av_;
	Owned<fid_cq> cq_;
	Owned<fid_mr> mr_;
	Owned<fid_ep> ep_;
};

void run(const char *server, const char *port, size_t bytes, int rounds)
{
	Node node(bytes);
	node.post_recv();
	int channel = meet(server, port);
	node.greet(channel);

	auto from = std::chrono::steady_clock::now();
	for (int round = 0; round < rounds; round++) {
		if (server) {
			std::fill_n(node.out(), bytes, char('a' + round % 26));
			node.post_send();
			node.wait(round + 1, round + 1);
			if (!std::equal(node.in(), node.in() + bytes, node.out()))
				throw std::runtime_error("round " + std::to_string(round) + ": the answer is not what was sent");
		} else { // answers what it hears
			node.wait(round, round + 1);
			std::copy_n(node.in(), bytes, node.out());
		}
		if (round + 1 < rounds)
			node.post_recv();
		if (!server)
			node.post_send();
	}
	node.wait(rounds, rounds);
	std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - from;
	std::printf("%d rounds of %zu bytes, %.2f us one way\n", rounds, bytes, took.count() / rounds / 2);
	char mine = 0, theirs;
	swap(channel, &mine, &theirs, 1); // nobody leaves before both are done
	close(channel);
}

} // namespace

int main(int argc, char **argv)
{
	const char *port = "18601";
	long bytes = 64, rounds = 10000;
	for (int option; (option = getopt(argc, argv, "p:s:n:")) != -1;)
		switch (option) {
		case 'p': port = optarg; break;
		case 's': bytes = atol(optarg); break;
		case 'n': rounds = atol(optarg); break;
		default: return 2; // getopt said why
		}
	if (bytes < 1 || rounds < 1) {
		std::fprintf(stderr, "-s and -n are at least 1\n");
		return 2;
	}
	try {
		run(argv[optind], port, size_t(bytes), int(rounds));
	} catch (const std::exception &error) {
		std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
		return 1;
	}
}
