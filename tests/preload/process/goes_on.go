// Sends back what comes on descriptor 3, with Go's own runtime between this and the kernel.
package main

import (
	"io"
	"net"
	"os"
)

func main() {
	connection, err := net.FileConn(os.NewFile(3, "connection"))
	if err != nil {
		panic(err)
	}
	if _, err := io.Copy(connection, connection); err != nil {
		panic(err)
	}
	connection.Close()
}
