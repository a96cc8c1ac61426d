// The development server of the Temporal CLI, without its other commands. go-build.ts compiles it inside the CLI's
// module, because the published module cannot be built as it is: it replaces a dependency by a folder that it lacks.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/google/uuid"
	uiversion "github.com/temporalio/ui-server/v2/server/version"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/headers"

	"github.com/temporalio/cli/internal/devserver"
)

// version is set by the linker.
var version = "unknown"

// Options of the CLI that may be given several times.
type list []string

func (l *list) String() string         { return strings.Join(*l, ",") }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Printf("temporal version %s (Server %s, UI %s)\n", version, headers.ServerVersion, uiversion.UIVersion)
		return
	}
	if len(os.Args) < 3 || os.Args[1] != "server" || os.Args[2] != "start-dev" {
		fail(fmt.Errorf("this build only has `server start-dev`"))
	}
	if err := serve(os.Args[3:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "Error:", err)
	os.Exit(1)
}

func serve(args []string) error {
	flags := flag.NewFlagSet("start-dev", flag.ContinueOnError)
	ip := flags.String("ip", "127.0.0.1", "")
	port := flags.Int("port", 7233, "")
	httpPort := flags.Int("http-port", 0, "")
	uiPort := flags.Int("ui-port", 0, "")
	headless := flags.Bool("headless", false, "")
	file := flags.String("db-filename", "", "")
	logLevel := flags.String("log-level", "warn", "")
	logFormat := flags.String("log-format", "text", "")
	var namespaces, attributes, values, pragmas list
	flags.Var(&namespaces, "namespace", "")
	flags.Var(&attributes, "search-attribute", "")
	flags.Var(&values, "dynamic-config-value", "")
	flags.Var(&pragmas, "sqlite-pragma", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	options := devserver.StartOptions{
		FrontendIP: *ip, FrontendPort: *port, FrontendHTTPPort: *httpPort,
		Namespaces: append([]string{"default"}, namespaces...),
		ClusterID:  uuid.NewString(), MasterClusterName: "active", CurrentClusterName: "active",
		InitialFailoverVersion: 1,
		DatabaseFile:           *file,
		MetricsPort:            devserver.MustGetFreePort(*ip),
		Logger:                 logger(*logFormat),
		// The defaults of the CLI.
		DynamicConfigValues: map[string]any{
			"system.forceSearchAttributesCacheRefreshOnRead": true,
			"system.forceNexusEndpointRefreshOnRead":         true,
			"frontend.persistenceMaxQPS":                     10000,
			"history.persistenceMaxQPS":                      45000,
		},
		SqlitePragmas:    map[string]string{},
		SearchAttributes: map[string]enums.IndexedValueType{},
	}
	if *logLevel == "never" {
		options.LogLevel = 100
	} else if err := options.LogLevel.UnmarshalText([]byte(*logLevel)); err != nil {
		return err
	}
	if !*headless {
		options.UIIP, options.UIPort = *ip, *uiPort
		if *uiPort == 0 {
			options.UIPort = *port + 1000
		}
	}
	if err := fill(&options, attributes, values, pragmas); err != nil {
		return err
	}
	server, err := devserver.Start(options)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	server.Stop()
	return nil
}

func logger(format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelDebug}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

func fill(options *devserver.StartOptions, attributes, values, pragmas list) error {
	for _, each := range attributes {
		name, kind, _ := strings.Cut(each, "=")
		parsed, err := enums.IndexedValueTypeFromString(kind)
		if err != nil {
			return err
		}
		options.SearchAttributes[name] = parsed
	}
	for _, each := range pragmas {
		name, value, _ := strings.Cut(each, "=")
		options.SqlitePragmas[name] = value
	}
	for _, each := range values {
		name, text, _ := strings.Cut(each, "=")
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("dynamic config value %s: %w", name, err)
		}
		// The server expects whole numbers as int.
		if number, ok := value.(float64); ok && number == float64(int(number)) {
			value = int(number)
		}
		options.DynamicConfigValues[name] = value
	}
	return nil
}
