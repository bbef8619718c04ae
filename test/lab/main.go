package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lanyard-dev/lanyard/test/lab/oci"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		var status exitStatus
		if errors.As(err, &status) {
			stop()
			os.Exit(int(status)) //nolint:gocritic // the deferred stop has been called
		}
		fmt.Fprintln(os.Stderr, "lab:", err)
		stop()
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var l lab
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A real kubeadm cluster on this machine, in network namespaces of its own",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return l.locate()
		},
	}
	name := os.Getenv("LANYARD_LAB")
	if name == "" {
		name = "lanyard"
	}
	root.PersistentFlags().StringVar(&l.name, "name", name, "the lab's name (also LANYARD_LAB); labs of different names run side by side")
	root.AddCommand(lifecycleCommands(&l)...)
	root.AddCommand(useCommands(&l)...)
	root.AddCommand(faultCommands(&l)...)
	root.AddCommand(imageCommand())
	root.AddCommand(innerCommands(&l)...)
	return root
}

// locate finds the lab's folders.
func (l *lab) locate() error {
	if !validName.MatchString(l.name) {
		return fmt.Errorf("--name is %q: a lab's name has letters, digits and hyphens only", l.name)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("finding the cache: %w", err)
	}
	if cache, err = resolve(cache); err != nil {
		return err
	}
	if err := checkCache(cache); err != nil {
		return err
	}
	l.cache = filepath.Join(cache, "lanyard")
	l.state = filepath.Join(l.cache, "labs", l.name)
	return nil
}

// validName is what is safe in a namespace's name, a path and a mount option alike.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*$`)

// resolve follows symbolic links: the kernel shows programs and mounts by their real paths, and that is how a lab's are found.
func resolve(folder string) (string, error) {
	if err := makeFolders(folder); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(folder)
}

// checkCache refuses a folder that nodes could not keep their disks in: one that their own mounts hide, or whose path would be taken
// apart by the kernel's mount options.
func checkCache(folder string) error {
	for _, hidden := range []string{"/etc", "/opt", "/var", "/run", "/proc", "/sys"} {
		if folder == hidden || strings.HasPrefix(folder, hidden+"/") {
			return fmt.Errorf("the cache is %s, and nodes have a %s of their own: set XDG_CACHE_HOME to a folder elsewhere", folder, hidden)
		}
	}
	if strings.ContainsAny(folder, " \t\n\\,:") {
		return fmt.Errorf("the cache is %q, which mount options cannot hold: set XDG_CACHE_HOME to a path without spaces, commas, colons and "+
			"backslashes", folder)
	}
	return nil
}

func lifecycleCommands(l *lab) []*cobra.Command {
	p := progress{os.Stderr}
	var (
		asked size
		dual  bool
	)
	up := &cobra.Command{Use: "up", Short: "Start the lab, or mend what is down", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dual {
				asked.stack = dualStack
			}
			return l.up(cmd.Context(), p, asked)
		}}
	up.Flags().IntVar(&asked.nodes, "nodes", 0, "how many nodes, the control plane included (default 3, or what the lab has)")
	up.Flags().IntVar(&asked.ownKernels, "uml-nodes", 0,
		"how many further workers with a kernel of their own, user-mode Linux (default none, or what the lab has)")
	up.Flags().BoolVar(&dual, "dual-stack", false, "IPv6 besides IPv4, on the LAN and in the cluster (default no, or what the lab has)")
	return []*cobra.Command{
		up,
		{Use: "down", Short: "Remove the lab; the cache stays", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return l.down(cmd.Context(), p) }},
		{Use: "build", Short: "Build all that a lab needs into the cache", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return l.prepare(cmd.Context(), p) }},
		{Use: "assets", Short: "Build etcd, kube-apiserver and kubectl, and print their folder, for KUBEBUILDER_ASSETS", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := l.build(cmd.Context(), p, apiPrograms); err != nil {
					return err
				}
				fmt.Println(l.bin())
				return nil
			}},
		{Use: "kernel", Short: "Build the kernel of nodes with their own, and print where it is", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				if err := l.buildKernel(cmd.Context(), p); err != nil {
					return err
				}
				fmt.Println(l.kernel())
				return nil
			}},
		{Use: "leftovers", Short: "List what the lab has on this machine; fail if there is anything", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error {
				found, err := l.leftovers()
				if err != nil || len(found) == 0 {
					return err
				}
				return errors.New("left over:\n" + strings.Join(found, "\n"))
			}},
	}
}

// innerCommands are those that the lab itself runs: on nodes, and to reach them.
func innerCommands(l *lab) []*cobra.Command {
	return []*cobra.Command{
		{Use: "node-init NODE", Hidden: true, Args: cobra.ExactArgs(1), Short: "A node's first process on this machine",
			RunE: func(_ *cobra.Command, args []string) error { return l.nodeInit(args[0]) }},
		{Use: "kernel-init NODE", Hidden: true, Args: cobra.ExactArgs(1), Short: "The first process on a node's own kernel",
			RunE: func(cmd *cobra.Command, args []string) error { return l.kernelInit(cmd.Context(), args[0]) }},
		{Use: "console NODE", Hidden: true, Args: cobra.ExactArgs(1), Short: "Run commands for the lab, on a node with a kernel of its own",
			RunE: func(cmd *cobra.Command, args []string) error { return l.console(cmd.Context(), args[0]) }},
		{Use: "console-exec NODE -- COMMAND", Hidden: true, Args: cobra.MinimumNArgs(2), Short: "Ask a node's console to run a command",
			RunE: func(cmd *cobra.Command, args []string) error { return l.consoleExec(cmd.Context(), args[0], args[1:]) }},
	}
}

func useCommands(l *lab) []*cobra.Command {
	return []*cobra.Command{
		{Use: "exec HOST -- COMMAND", Short: "Run a command on a node or on k8s-ops", Args: cobra.MinimumNArgs(2),
			RunE: func(cmd *cobra.Command, args []string) error {
				inside, err := l.command(cmd.Context(), args[0], args[1:])
				if err != nil {
					return err
				}
				path, err := exec.LookPath(inside.Path)
				if err != nil {
					return fmt.Errorf("finding %s: %w", inside.Path, err)
				}
				return syscall.Exec(path, inside.Args, inside.Env) // signals, terminal and exit code are the command's own
			}},
		{Use: "kubeconfig", Short: "Print the path of the admin's kubeconfig, for use on the LAN", Args: cobra.NoArgs,
			Run: func(*cobra.Command, []string) { fmt.Println(l.adminKubeconfig()) }},
		{Use: "load IMAGE.tar...", Short: "Load images on all nodes", Args: cobra.MinimumNArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return l.loadEverywhere(cmd.Context(), args) }},
		{Use: "status", Short: "Show hosts, power, cables and readiness", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error { return l.status(cmd.Context(), os.Stdout) }},
	}
}

func faultCommands(l *lab) []*cobra.Command {
	p := progress{os.Stderr}
	var silently, second, remove bool
	cut := &cobra.Command{Use: "cut HOST", Short: "Pull a host's cable", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.cut(cmd.Context(), args[0], silently, second) }}
	cut.Flags().BoolVar(&silently, "silent", false, "keep the host's carrier, as behind a switch port that died")
	mend := &cobra.Command{Use: "mend HOST", Short: "Plug a host's cable in again", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return l.mend(cmd.Context(), args[0], second) }}
	for _, c := range []*cobra.Command{cut, mend} {
		c.Flags().BoolVar(&second, "second", false, "the cable of the second LAN")
	}
	secondLAN := &cobra.Command{Use: "second-lan", Short: "Plug k8s-ops and the nodes that run into a second LAN, 10.1.0.0/24, as eth1", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if remove {
				return l.removeSecondLAN(cmd.Context())
			}
			return l.secondLAN(cmd.Context())
		}}
	secondLAN.Flags().BoolVar(&remove, "remove", false, "take it away again")
	return []*cobra.Command{
		cut, mend, secondLAN,
		{Use: "kill NODE", Short: "Cut a node's power", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return l.kill(cmd.Context(), args[0]) }},
		{Use: "start NODE", Short: "Turn a killed node on again", Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error { return l.start(cmd.Context(), p, args[0]) }},
	}
}

func imageCommand() *cobra.Command {
	var (
		binaries        []string
		user, ref, file string
	)
	cmd := &cobra.Command{Use: "image", Short: "Pack static programs into an image, without a container engine", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(binaries) == 0 {
				return errors.New("--binary is empty: an image has at least one program")
			}
			spec := oci.Spec{Reference: ref, User: user, Entrypoint: []string{"/" + filepath.Base(binaries[0])}}
			for _, b := range binaries {
				spec.Files = append(spec.Files, oci.File{Path: "/" + filepath.Base(b), Source: b, Mode: 0o755})
			}
			return oci.Write(spec, file)
		}}
	cmd.Flags().StringSliceVar(&binaries, "binary", nil, "the programs; the first is the entry point")
	cmd.Flags().StringVar(&user, "user", "65532:65532", "what they run as")
	cmd.Flags().StringVar(&ref, "ref", "", "the image's full name with its tag")
	cmd.Flags().StringVar(&file, "out", "", "the tar file to write")
	for _, required := range []string{"binary", "ref", "out"} {
		cobra.CheckErr(cmd.MarkFlagRequired(required))
	}
	return cmd
}
