// Copyright (c) 2026, fabric.rdma contributors
// GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// What the device plugins offer on a host that is a tree of files, by their own code: each line of the input is
// {"root": DIRECTORY, "shared": CONFIG, "sriov": CONFIG}, and each line of the output what each resource has by PCI address.
//
// The program goes into the tree with chroot, so the plugins' own code, ghw and rdmamap read its /sys. Two things come from
// netlink on a node, and are read from the tree in its place, through the interfaces that the plugins have for it: the type of
// a link (NetlinkManager, NetlinkProvider), and whether a function is in switchdev mode (devlink), which it is where its
// netdevs have a phys_switch_id. The SR-IOV plugin asks the kernel for default routes by itself: it finds none of these names.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	shared "github.com/Mellanox/k8s-rdma-shared-dev-plugin/pkg/resources"
	sharedtypes "github.com/Mellanox/k8s-rdma-shared-dev-plugin/pkg/types"
	"github.com/jaypipes/ghw"
	"github.com/k8snetworkplumbingwg/sriov-network-device-plugin/pkg/factory"
	sriovtypes "github.com/k8snetworkplumbingwg/sriov-network-device-plugin/pkg/types"
	sriovutils "github.com/k8snetworkplumbingwg/sriov-network-device-plugin/pkg/utils"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

type host struct {
	Root   string          `json:"root"`
	Shared json.RawMessage `json:"shared"`
	Sriov  json.RawMessage `json:"sriov"`
}

type pools map[string][]string

type offer struct {
	Shared pools `json:"shared"`
	Sriov  pools `json:"sriov"`
}

// links answers what a node's netlink would, from the tree.
type links struct{}

func (links) LinkByName(name string) (netlink.Link, error) {
	text, err := os.ReadFile(filepath.Join("/sys/class/net", name, "type"))
	if err != nil {
		return nil, err
	}
	kind, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil {
		return nil, err
	}
	message := nl.NewIfInfomsg(0)
	message.Type = uint16(kind)
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	attributes.EncapType = message.EncapType()
	return &netlink.Device{LinkAttrs: attributes}, nil
}

func (links) LinkSetUp(netlink.Link) error {
	return nil
}

func (own links) GetLinkAttrs(name string) (*netlink.LinkAttrs, error) {
	link, err := own.LinkByName(name)
	if err != nil {
		return nil, err
	}
	return link.Attrs(), nil
}

func (links) GetDevLinkDeviceEswitchAttrs(pci string) (*netlink.DevlinkDevEswitchAttr, error) {
	found, err := filepath.Glob(filepath.Join("/sys/bus/pci/devices", pci, "net/*/phys_switch_id"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return &netlink.DevlinkDevEswitchAttr{Mode: "legacy"}, nil
	}
	return &netlink.DevlinkDevEswitchAttr{Mode: "switchdev"}, nil
}

// stage gives the shared plugin's manager our links: its field is private, and its constructor takes none.
func stage(manager sharedtypes.ResourceManager) {
	field := reflect.ValueOf(manager).Elem().FieldByName("netlinkManager")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(links{}))
}

func sharedPools(text json.RawMessage) (pools, error) {
	const path = "/config.json"
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	manager := shared.NewResourceManager(path, false)
	stage(manager)
	if err := errors.Join(manager.ReadConfig(), manager.ValidateConfigs(), manager.DiscoverHostDevices()); err != nil {
		return nil, err
	}
	var config sharedtypes.UserConfigList
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	found := pools{}
	for _, entry := range config.ConfigList {
		names := []string{}
		for _, device := range manager.GetFilteredDevices(manager.GetDevices(), &entry.Selectors) {
			names = append(names, device.GetPciAddr())
		}
		sort.Strings(names)
		found[entry.ResourceName] = names
	}
	return found, nil
}

func sriovPools(text json.RawMessage) (pools, error) {
	var config sriovtypes.ResourceConfList
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	resources := factory.NewResourceFactory("prefix", "sock", true)
	provider := resources.GetDeviceProvider(sriovtypes.NetDeviceType)
	pci, err := ghw.PCI()
	if err != nil {
		return nil, err
	}
	if err := provider.AddTargetDevices(pci.Devices, sriovtypes.SupportedDevices[sriovtypes.NetDeviceType]); err != nil {
		return nil, err
	}
	found := pools{}
	for index := range config.ResourceList {
		entry := &config.ResourceList[index]
		if entry.SelectorObj, err = resources.GetDeviceFilter(entry); err != nil {
			return nil, err
		}
		if !provider.ValidConfig(entry) {
			return nil, fmt.Errorf("the configuration of %s is not valid", entry.ResourceName)
		}
		devices, err := provider.GetFilteredDevices(provider.GetDevices(entry), entry)
		if err != nil {
			return nil, err
		}
		names := []string{}
		for _, device := range devices {
			names = append(names, device.GetPciAddr())
		}
		sort.Strings(names)
		found[entry.ResourceName] = names
	}
	return found, nil
}

func judge(one host, outside int) (found offer, err error) {
	if err := syscall.Chroot(one.Root); err != nil {
		return found, fmt.Errorf("chroot needs root, or a user namespace of its own: %w", err)
	}
	defer func() { err = errors.Join(err, syscall.Fchdir(outside), syscall.Chroot(".")) }()
	if err := os.Chdir("/"); err != nil {
		return found, err
	}
	if one.Shared != nil {
		if found.Shared, err = sharedPools(one.Shared); err != nil {
			return found, err
		}
	}
	if one.Sriov != nil {
		found.Sriov, err = sriovPools(one.Sriov)
	}
	return found, err
}

func run() error {
	outside, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	results := json.NewEncoder(os.Stdout)
	// the plugins print what they do
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		return err
	}
	// there is no directory for its files in the tree
	if err := flag.Set("logtostderr", "true"); err != nil {
		return err
	}
	sriovutils.SetNetlinkProviderInst(links{})
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var one host
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		found, err := judge(one, outside)
		if err != nil {
			return fmt.Errorf("%s: %w", one.Root, err)
		}
		if err := results.Encode(found); err != nil {
			return err
		}
	}
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "judges:", err)
		os.Exit(1)
	}
}
