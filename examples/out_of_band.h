/*
 * The exchange of addresses over TCP between two programs whose queue pairs do not yet communicate.
 * If it fails, it ends the program with a message. It works in C and C++.
 */
#ifndef OUT_OF_BAND_H
#define OUT_OF_BAND_H

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(ok, what) do { if (!(ok)) { perror(what); exit(1); } } while (0)

/* Connects to `server`, or without a server accepts the first connection at `port`. */
static inline int meet(const char *server, const char *port)
{
	struct addrinfo hints, *at;
	memset(&hints, 0, sizeof(hints));
	hints.ai_family = AF_INET;
	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = server ? 0 : AI_PASSIVE;
	int error = getaddrinfo(server, port, &hints, &at), one = 1;
	if (error) {
		fprintf(stderr, "%s:%s: %s\n", server ? server : "", port, gai_strerror(error));
		exit(1);
	}
	int fd = socket(at->ai_family, at->ai_socktype, 0);
	CHECK(fd >= 0, "socket");
	if (server) {
		CHECK(!connect(fd, at->ai_addr, at->ai_addrlen), "connect");
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		CHECK(!bind(fd, at->ai_addr, at->ai_addrlen) && !listen(fd, 1), "listen");
		int peer = accept(fd, NULL, NULL);
		CHECK(peer >= 0, "accept");
		close(fd);
		fd = peer;
	}
	freeaddrinfo(at);
	return fd;
}

/* Both sides tell and hear `bytes` bytes; neither returns before the other called it. */
static inline void swap(int fd, const void *mine, void *theirs, size_t bytes)
{
	CHECK(write(fd, mine, bytes) == (ssize_t)bytes, "write");
	CHECK(recv(fd, theirs, bytes, MSG_WAITALL) == (ssize_t)bytes, "recv");
}

#endif
