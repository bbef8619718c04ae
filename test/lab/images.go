package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lanyard-dev/lanyard/test/lab/oci"
)

// nginxImage is the demo's web server: Debian's nginx, under the name by which the tutorial's readers know it.
const nginxImage = "docker.io/library/nginx:1.22"

// libraryFolders are where Debian keeps shared libraries.
var libraryFolders = []string{"/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/lib64"}

// labImage is an image of the lab's own making.
type labImage struct {
	file string
	// on says which nodes need it.
	on   func(host) bool
	spec func(context.Context, lab) (oci.Spec, error)
}

func everywhere(host) bool        { return true }
func onControlPlane(h host) bool  { return h.role == controlPlane }
func registry(name string) string { return "registry.k8s.io/" + name }
func static(name string) oci.File {
	return oci.File{Path: "/usr/local/bin/" + filepath.Base(name), Source: name, Mode: 0o755}
}
func tool(path string) oci.File     { return oci.File{Path: path, Source: path, Mode: 0o755} }
func data(path string) oci.File     { return oci.File{Path: path, Source: path, Mode: 0o644} }
func link(path, to string) oci.File { return oci.File{Path: path, Link: to} }

// labImages are all images that the cluster and the demo need.
func labImages() []labImage {
	return []labImage{
		{"pause.tar", everywhere, single("pause", registry("pause:"+pauseTag), "/usr/local/bin/pause")},
		{"kube-proxy.tar", everywhere, kubeProxyImage},
		{"nginx.tar", everywhere, nginx},
		{"etcd.tar", onControlPlane, single("etcd", registry("etcd:"+etcdTag))},
		{"kube-apiserver.tar", onControlPlane, single("kube-apiserver", registry("kube-apiserver:"+kubernetesVersion))},
		{"kube-scheduler.tar", onControlPlane, single("kube-scheduler", registry("kube-scheduler:"+kubernetesVersion))},
		{"kube-controller-manager.tar", onControlPlane, single("kube-controller-manager", registry("kube-controller-manager:"+kubernetesVersion))},
	}
}

// single is an image with one static program.
func single(program, reference string, entrypoint ...string) func(context.Context, lab) (oci.Spec, error) {
	return func(_ context.Context, l lab) (oci.Spec, error) {
		return oci.Spec{Reference: reference, Files: []oci.File{static(filepath.Join(l.bin(), program))}, Entrypoint: entrypoint}, nil
	}
}

// kubeProxyImage holds kube-proxy and the tools that it calls, with xtables' plugins, which are loaded by name at run time.
func kubeProxyImage(_ context.Context, l lab) (oci.Spec, error) {
	const iptables = "xtables-nft-multi"
	programs := []oci.File{
		tool("/usr/sbin/" + iptables), tool("/usr/sbin/nft"), tool("/usr/sbin/conntrack"), tool("/usr/sbin/ipset"), tool("/usr/bin/kmod"),
	}
	plugins, err := filepath.Glob("/usr/lib/x86_64-linux-gnu/xtables/*.so")
	if err != nil {
		return oci.Spec{}, fmt.Errorf("looking for xtables' plugins: %w", err)
	}
	for _, plugin := range plugins {
		programs = append(programs, tool(plugin))
	}
	files, err := oci.WithLibraries(programs, libraryFolders)
	if err != nil {
		return oci.Spec{}, err
	}
	files = append(files, static(filepath.Join(l.bin(), "kube-proxy")), data("/etc/protocols"), link("/usr/sbin/modprobe", "/usr/bin/kmod"),
		oci.File{Path: "/tmp", Dir: true, Mode: 0o1777}, oci.File{Path: "/run", Dir: true, Mode: 0o755})
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		files = append(files, link("/usr/sbin/"+name, iptables))
	}
	return oci.Spec{Reference: registry("kube-proxy:" + kubernetesVersion), Files: files}, nil
}

// nginx is Debian's nginx with its welcome page, logging to the container's output.
func nginx(ctx context.Context, l lab) (oci.Spec, error) {
	folder := filepath.Join(l.images(), "nginx")
	if err := unpackNginx(ctx, folder); err != nil {
		return oci.Spec{}, err
	}
	programs := []oci.File{{Path: "/usr/sbin/nginx", Source: filepath.Join(folder, "usr/sbin/nginx"), Mode: 0o755}}
	files, err := oci.WithLibraries(programs, libraryFolders)
	if err != nil {
		return oci.Spec{}, err
	}
	configured, err := filesBelow(folder, "etc/nginx", "usr/share/nginx")
	if err != nil {
		return oci.Spec{}, err
	}
	files = append(files, configured...)
	files = append(files,
		oci.File{Path: "/etc/passwd", Content: []byte("root:x:0:0:root:/root:/bin/false\nwww-data:x:33:33:www-data:/var/www:/bin/false\n"), Mode: 0o644},
		oci.File{Path: "/etc/group", Content: []byte("root:x:0:\nwww-data:x:33:\n"), Mode: 0o644},
		oci.File{Path: "/etc/nginx/nginx.conf", Content: []byte(nginxConf), Mode: 0o644},
		oci.File{Path: "/var/lib/nginx", Dir: true, Mode: 0o755}, oci.File{Path: "/var/log/nginx", Dir: true, Mode: 0o755},
		oci.File{Path: "/run", Dir: true, Mode: 0o755}, oci.File{Path: "/tmp", Dir: true, Mode: 0o1777})
	return oci.Spec{Reference: nginxImage, Files: files, Entrypoint: []string{"/usr/sbin/nginx", "-g", "daemon off;"}}, nil
}

const nginxConf = `user www-data;
worker_processes 1;
pid /run/nginx.pid;
error_log /dev/stderr;
events {}
http {
  include /etc/nginx/mime.types;
  access_log /dev/stdout;
  server {
    listen 80 default_server;
    listen [::]:80 default_server;
    root /usr/share/nginx/html;
    # The name of the pod that answered, so that a test can tell who it was.
    add_header X-Served-By $hostname;
  }
}
`

// filesBelow lists the regular files below folders of a staging folder, as files of an image.
func filesBelow(staging string, folders ...string) ([]oci.File, error) {
	var files []oci.File
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(staging, folder), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			files = append(files, oci.File{Path: strings.TrimPrefix(file, staging), Source: file, Mode: 0o644})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", folder, err)
		}
	}
	return files, nil
}

// buildImages makes sure that the lab's images are in the cache.
func (l lab) buildImages(ctx context.Context, p progress) error {
	if err := os.MkdirAll(l.images(), 0o755); err != nil {
		return fmt.Errorf("making the cache for images: %w", err)
	}
	unlock, err := lockFile(ctx, p, filepath.Join(l.images(), "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	for _, image := range labImages() {
		target := filepath.Join(l.images(), image.file)
		if _, err := os.Stat(target); err == nil {
			continue
		}
		err := p.step("packing image "+image.file, func() error {
			spec, err := image.spec(ctx, l)
			if err != nil {
				return err
			}
			return oci.Write(spec, target)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
