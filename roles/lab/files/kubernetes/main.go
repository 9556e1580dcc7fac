// Copyright (c) 2026, fabric.rdma contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Kubernetes as one program: its name, or its first argument, says which part of it this is. The lab and the tests run the control
// plane from it, nodes the kubelet. One program instead of six shares what they have in common, which is most of the time to build
// and of the size.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwokcmd "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	kwoksignals "sigs.k8s.io/kwok/pkg/utils/signals"
)

// kwok as its own main program starts it.
func kwok() int {
	// Kubernetes has put a --version of its own into the flags that every command inherits; kwok's is another kind of flag.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ContinueOnError)
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}
	ctx, _ := kwoklog.InitFlags(kwoksignals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err == nil {
		command := kwokcmd.NewCommand(ctx)
		command.PersistentFlags().AddFlagSet(flags)
		err = command.ExecuteContext(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kwok:", err)
		return 1
	}
	return 0
}

// A test that is killed must leave nothing behind: the kernel ends this program with the one that started it.
// It does so per thread, and the first thread is the one that lives as long as the program.
func dieWithParent() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	parent := os.Getppid()
	_, _, code := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	if code != 0 || os.Getppid() != parent {
		fmt.Fprintln(os.Stderr, "the program that started this one has ended, or cannot be followed:", code)
		os.Exit(1)
	}
}

func main() {
	parts := map[string]func() int{
		"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
		"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
		"kwok":                    kwok,
	}
	part, known := parts[filepath.Base(os.Args[0])]
	if !known && len(os.Args) > 1 {
		part, known = parts[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if !known {
		fmt.Fprintln(os.Stderr, "usage: PROGRAM etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet|kwok ARGUMENT...")
		os.Exit(2)
	}
	dieWithParent()
	os.Exit(part())
}
